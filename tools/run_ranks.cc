#include "tools/run_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace trireme::tools {
namespace {

std::string pack(const runtime::MemoryUse& use) {
  const std::int64_t values[2] = {use.allocated_peak.value, use.reserved_peak.value};
  std::string bytes(sizeof(values), '\0');
  std::memcpy(bytes.data(), values, sizeof(values));
  return bytes;
}

runtime::MemoryUse unpack(const std::string& bytes) {
  std::int64_t values[2] = {0, 0};
  std::memcpy(values, bytes.data(), std::min(bytes.size(), sizeof(values)));
  return {Bytes(values[0]), Bytes(values[1])};
}

}  // namespace

void run_rank(const RankRun& run, runtime::RankExecutor& executor, runtime::Backend& backend,
              runtime::Coordinator& coordinator) {
  runtime::train(executor, coordinator, *run.tokens, run.settings, run.on_step);
  std::vector<runtime::MemoryUse> memory;
  for (const std::string& bytes : coordinator.gather(pack(backend.memory()))) {
    memory.push_back(unpack(bytes));
  }
  if (coordinator.rank() == Rank(0)) {
    run.on_end(memory);
  }
}

int run_on_processes(const RankRun& run, const std::optional<runtime::RankEnvironment>& environment,
                     const MakeBackend& make_backend, std::FILE* err) {
  const StepProgram& program = *run.program;
  if (environment.has_value() && environment->ranks != program.ranks) {
    throw Error(
        "WORLD_SIZE",
        fmt::format(
            "{} started {} ranks, the layout {} needs {}; start as many, or choose another layout",
            environment->launcher, environment->ranks, program.name, program.ranks));
  }
  runtime::OpBoard board(program.ranks);
  const auto body = [&](const runtime::RankEnvironment& own) {
    const auto coordinator = runtime::make_store_coordinator(own, run.settings.timeout);
    if (environment.has_value()) {
      runtime::require_alike(*coordinator, run.told);
    }
    const auto backend = make_backend(own, *coordinator, board);
    runtime::RankExecutor executor(program, own.rank, *backend);
    run_rank(run, executor, *backend, *coordinator);
    std::fflush(nullptr);
    return 0;
  };
  if (environment.has_value()) {
    return body(*environment);
  }
  std::fflush(nullptr);  // children must not print what is buffered here
  return runtime::run_local_processes(
      program.ranks, board, body,
      [&](Rank rank, OpId op) {
        return runtime::describe_op(program.roles[index_of(role_of(program, rank))], op);
      },
      [&](const std::string& line) { fmt::print(err, "trireme: {}\n", line); });
}

}  // namespace trireme::tools
