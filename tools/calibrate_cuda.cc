#include "tools/calibrate_cuda.h"

#include <fmt/format.h>

#include <cstdlib>

#include "core/error.h"
#include "runtime/agreement.h"
#include "runtime/cuda/microbench.h"
#include "runtime/launch.h"
#include "tools/build_facts.h"
#include "tools/run_cuda.h"

namespace trireme::tools {
namespace {

// Between two collectives of the benchmark no rank waits longer for another.
constexpr Seconds kTimeout{120.0};

// `first`: of the rank that speaks for all.
MicrobenchSettings settings_of(const Measurement& measurement, bool first, bool draws,
                               std::FILE* err) {
  MicrobenchSettings settings;
  settings.quick = measurement.quick;
  if (first) {
    settings.remark = [draws, err](const std::string& line) {
      fmt::print(err, "{}trireme: {}\n", draws ? "\r\x1b[K" : "", line);
    };
  }
  if (draws) {
    settings.progress = [err](double share, const std::string& what) {
      constexpr int kWidth = 30;
      const auto full = static_cast<int>(share * kWidth);
      fmt::print(err, "\r\x1b[K[{:#<{}}{:.<{}}] {:3.0f} %  {}", "", full, "", kWidth - full,
                 100 * share, what);
      std::fflush(err);
    };
  }
  return settings;
}

int measure_rank(const Measurement& measurement, const runtime::RankEnvironment& own,
                 const Console& console) {
  const auto coordinator = runtime::make_store_coordinator(own, kTimeout);
  runtime::require_alike(*coordinator, {{"trireme --version", version()},
                                        {"--quick", measurement.quick ? "yes" : "no"}});
  const auto device = static_cast<int>(own.local_rank);
  measurement.check(runtime::cuda::fingerprint(device, own.ranks));
  const bool first = own.rank == Rank(0);
  const bool draws = first && console.progress;
  const Microbenchmarks points = runtime::cuda::measure(
      *coordinator, device, settings_of(measurement, first, draws, console.err), kTimeout);
  if (draws) {
    fmt::print(console.err, "\r\x1b[K");
  }
  const int code = first ? measurement.finish(points) : 0;
  coordinator->barrier();
  std::fflush(nullptr);
  return code;
}

}  // namespace

int measure_on_gpus(const Measurement& measurement, const Console& console) {
  const auto environment =
      runtime::rank_environment([](const char* name) { return std::getenv(name); });
  if (environment.has_value()) {
    return measure_rank(measurement, *environment, console);
  }
  const std::int64_t visible = visible_gpus();
  if (visible == 0) {
    throw Error("calibrate", "no GPU is visible here; fit measurements with --fit instead",
                ErrorKind::kMissingMachine);
  }
  const std::int64_t ranks = measurement.gpus.value_or(visible);
  if (ranks > visible) {
    throw Error("--gpus", fmt::format("{} asked for and {} are visible here", ranks, visible),
                ErrorKind::kMissingMachine);
  }
  runtime::OpBoard board(ranks);
  std::fflush(nullptr);  // children must not print what is buffered here
  return runtime::run_local_processes(
      ranks, board,
      [&](const runtime::RankEnvironment& own) { return measure_rank(measurement, own, console); },
      [](Rank, OpId) { return std::string("measuring"); },
      [&](const std::string& line) { fmt::print(console.err, "trireme: {}\n", line); });
}

}  // namespace trireme::tools
