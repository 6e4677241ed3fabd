#include "tools/run_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/files.h"
#include "core/json_reader.h"
#include "models/work.h"
#include "planner/walk/walk.h"
#include "runtime/execute.h"
#include "runtime/measured_trace.h"
#include "tools/device_peak.h"
#include "tools/plan_file.h"
#include "tools/report.h"
#include "tools/table.h"
#include "tools/trace_json.h"

namespace trireme::tools {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// Ops that do the same in every layer and micro-batch are one row.
struct OpRow {
  std::string category, kind;
  std::vector<double> seconds, skew, predicted;
  std::set<Rank> ranks;
};

Json ops_json(const RunDescription& run, const Trace& trace) {
  std::map<std::tuple<std::uint32_t, std::string>, OpRow> rows;
  for (const OpTiming& timing : trace.timings) {
    const trireme::Program& role = run.program.roles[index_of(timing.role)];
    const Op& op = role.ops[index_of(timing.op)];
    OpRow& row = rows[{index_of(timing.role),
                       fmt::format("{} {}", to_string(op.origin.phase), role.names[op.name])}];
    row.category = category_of(run.program, role, op);
    row.kind = kind_name(op.kind);
    row.seconds.push_back(to_seconds(timing.end - timing.start).value);
    row.skew.push_back(to_seconds(timing.start - timing.ready).value);
    row.ranks.insert(timing.rank);
    if (run.predicted) {
      const OpTime& time = run.predicted->roles[index_of(timing.role)][index_of(timing.op)];
      row.predicted.push_back(to_seconds(time.duration).value);
    }
  }
  Json json = Json::array();
  for (const auto& [key, row] : rows) {
    json.push_back(
        {{"op", std::get<1>(key)},
         {"category", row.category},
         {"kind", row.kind},
         {"stage", std::get<0>(key)},
         {"count", row.seconds.size()},
         {"ranks", row.ranks.size()},
         {"median_seconds", median(row.seconds)},
         {"median_skew_seconds", median(row.skew)},
         {"predicted_seconds", row.predicted.empty() ? Json() : Json(median(row.predicted))}});
  }
  return json;
}

Json memory_json(const std::vector<runtime::MemoryUse>& memory, Bytes runtime::MemoryUse::*peak) {
  Json json = Json::array();
  for (const runtime::MemoryUse& use : memory) {
    json.push_back(to_gib(use.*peak));
  }
  return json;
}

Json machine_json(const RunDescription& run) {
  return {{"host", host_name()},        {"backend", run.backend},
          {"device", run.device},       {"precision", run.precision},
          {"ranks", run.program.ranks}, {"hardware_threads", std::thread::hardware_concurrency()}};
}

double predicted_step(const RunDescription& run) {
  const Trace walked = planner::walk(run.program, *run.predicted, {.keep_timings = false});
  return to_seconds(walked.step_times.front()).value;
}

}  // namespace

void name_device(RunDescription& run, const std::string& driver_name) {
  run.device = driver_name;
  auto peak = device_peak(driver_name, run.job.precision);
  if (!peak && run.predicted) {
    peak = device_peak(run.job.cluster.gpu, run.job.precision);
  }
  run.peak_flops = peak ? peak->rate.value : 0;
  run.peak_source = peak ? peak->source : "";
}

double RunReport::model_tflops(double seconds) const {
  const Flop token = models::model_flop_per_token(run_->job.model, run_->job.sequence,
                                                  models::FlopConvention::kHalfCausal);
  const auto tokens = static_cast<double>(run_->job.global_batch * run_->job.sequence);
  return token.value * tokens / seconds / static_cast<double>(run_->program.ranks) * 1e-12;
}

std::optional<double> RunReport::mfu(double seconds) const {
  return run_->peak_flops > 0 ? std::optional(model_tflops(seconds) * 1e12 / run_->peak_flops)
                              : std::nullopt;
}

// Steps without op timing; the first is left out, since it warms caches and connections.
double RunReport::median_step() const {
  std::vector<double> seconds;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if ((i > 0 || steps_.size() == 1) && (!steps_[i].timed || steps_.size() <= 2)) {
      seconds.push_back(steps_[i].seconds);
    }
  }
  return median(seconds);
}

void RunReport::step(std::int64_t number, runtime::StepResults results) {
  Step step{.number = number + 1,
            .seconds = runtime::step_seconds(results),
            .loss = runtime::loss_of(results),
            .gradient_norm = std::nan(""),
            .timed = !results.front().ops.empty()};
  for (const runtime::StepResult& result : results) {
    step.gradient_norm = result.has_gradient_norm ? result.gradient_norm : step.gradient_norm;
  }
  steps_.push_back(step);
  if (console_->progress) {
    const auto tokens = static_cast<double>(run_->job.global_batch * run_->job.sequence);
    std::string line =
        fmt::format("step {}  loss {:.5f}  {}  {} tokens/s", step.number, step.loss,
                    duration_text(step.seconds), grouped(std::round(tokens / step.seconds)));
    if (const auto share = mfu(step.seconds)) {
      line += fmt::format("  MFU {:.1f} %", 100 * *share);
    }
    fmt::print(console_->err, "\r\x1b[K{}", line);
    std::fflush(console_->err);
  }
  if (step.timed) {
    timed_.resize(results.size());
    for (std::size_t rank = 0; rank < results.size(); ++rank) {
      timed_[rank].push_back(std::move(results[rank]));
    }
  }
}

Json RunReport::result_json(const std::vector<runtime::MemoryUse>& memory, const Trace& trace,
                            const TimeSplit& split) const {
  const double seconds = median_step();
  const std::optional<double> share = mfu(seconds);
  const auto tokens = static_cast<double>(run_->job.global_batch * run_->job.sequence);
  const bool timed = split.step_seconds > 0;
  Json steps = Json::array();
  for (const Step& step : steps_) {
    steps.push_back({{"step", step.number},
                     {"step_seconds", step.seconds},
                     {"loss", step.loss},
                     {"gradient_norm", step.gradient_norm},
                     {"timed", step.timed}});
  }
  return {{"layout", layout_json(run_->plan)},
          {"machine", machine_json(*run_)},
          {"job", job_options_json(run_->options)},
          {"model", run_->job.model.name},
          {"framework", full_name(run_->job.framework)},
          {"sequence", run_->job.sequence},
          {"global_batch", run_->job.global_batch},
          {"seed", run_->seed},
          {"deterministic", run_->deterministic || run_->backend == "cpu"},
          {"steps", steps},
          {"median_step_seconds", seconds},
          {"predicted_step_seconds", run_->predicted ? Json(predicted_step(*run_)) : Json()},
          {"tokens_per_second", tokens / seconds},
          {"peak_allocated_gib", memory_json(memory, &runtime::MemoryUse::allocated_peak)},
          {"peak_reserved_gib", memory_json(memory, &runtime::MemoryUse::reserved_peak)},
          {"model_tflops_per_gpu", model_tflops(seconds)},
          {"mfu", share ? Json(*share) : Json()},
          {"peak_tflops", share ? Json(run_->peak_flops * 1e-12) : Json()},
          {"peak_source", share ? Json(run_->peak_source) : Json()},
          {"exposed_seconds", timed ? Json(split.seconds) : Json()},
          {"exposed_communication_share",
           timed ? Json(split.exposed_communication / split.step_seconds) : Json()},
          {"ops", ops_json(*run_, trace)}};
}

void RunReport::print_result(const std::vector<runtime::MemoryUse>& memory,
                             const TimeSplit& split) const {
  double peak = 0;
  for (const runtime::MemoryUse& use : memory) {
    peak = std::max(peak, to_gib(use.allocated_peak));
  }
  const double seconds = median_step();
  const auto tokens = static_cast<double>(run_->job.global_batch * run_->job.sequence);
  Table table{
      .head = {"steps", "first loss", "last loss", "median step", "tokens/s", "peak memory"},
      .rows = {{std::to_string(steps_.size()), fmt::format("{:.6f}", steps_.front().loss),
                fmt::format("{:.6f}", steps_.back().loss), duration_text(seconds),
                grouped(std::round(tokens / seconds)), fmt::format("{:.3f} GiB", peak)}}};
  const auto add_share = [&table](const char* head, double share) {
    table.head.emplace_back(head);
    table.rows.front().push_back(fmt::format("{:.1f} %", 100 * share));
  };
  const std::optional<double> share = mfu(seconds);
  if (share) {
    add_share("MFU", *share);
  }
  if (split.step_seconds > 0) {
    add_share("exposed communication", split.exposed_communication / split.step_seconds);
  }
  print_heading(*console_, fmt::format("{} as {} on {} {} ranks", run_->job.model.name,
                                       run_->program.name, run_->program.ranks, run_->backend));
  print_table(*console_, table);
  if (share) {
    fmt::print(console_->out, "MFU against {:.0f} TFLOP/s of {}\n", run_->peak_flops * 1e-12,
               run_->peak_source.substr(0, run_->peak_source.find(':')));
  }
}

void RunReport::finish(const std::vector<runtime::MemoryUse>& memory) {
  if (console_->progress) {
    fmt::print(console_->err, "\r\x1b[K");
  }
  if (run_->backend == "cuda" && run_->peak_flops <= 0 && !console_->quiet) {
    fmt::print(console_->err,
               "trireme: remark: no MFU, since '{}' is not among the GPUs of the hardware data; "
               "--cluster with its topology file names its peak\n",
               run_->device);
  }
  const Trace trace = runtime::make_trace(run_->program, timed_, memory);
  const TimeSplit split = split_time(run_->program, trace);
  const Json result = result_json(memory, trace, split);
  if (!run_->trace_file.empty()) {
    write_file_atomically(run_->trace_file, trace_json(run_->program, trace));
  }
  if (!run_->result_file.empty()) {
    Json whole = {{"schema", "trireme.run/1"}};
    whole.update(result);
    write_file_atomically(run_->result_file, whole.dump(2) + "\n");
  }
  if (run_->json) {
    print_json(*console_, "run", result);
    return;
  }
  print_result(memory, split);
}

}  // namespace trireme::tools
