// Speed of lowering and walking the largest plan that ships in the examples, with the machine
// named.
#include <fmt/core.h>

#include <chrono>
#include <fstream>
#include <string>

#include "core/verify.h"
#include "models/presets.h"
#include "planner/lower/lower.h"
#include "planner/walk/step_times.h"
#include "planner/walk/walk.h"

namespace trireme {
namespace {

std::string machine() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("model name")) {
      return line.substr(line.find(':') + 2);
    }
  }
  return "unknown processor";
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void measure(const std::string& model, const std::string& cluster, const std::string& short_form,
             std::int64_t sequence, std::int64_t micro_batches) {
  planner::Job job;
  job.model = models::load_model(model);
  job.framework = planner::find_framework("trireme");
  job.profile = topologies::shipped_profile();
  planner::Plan plan = planner::parse_short_form(short_form);
  plan.micro_batches = micro_batches;
  job.sequence = sequence;
  job.global_batch = micro_batches * plan.micro_batch * plan.data_parallel();
  job.cluster = topologies::narrowed(topologies::load_cluster(cluster), plan.gpus());
  auto start = std::chrono::steady_clock::now();
  const StepProgram program = planner::lower(job, plan);
  const double lowering = seconds_since(start);
  start = std::chrono::steady_clock::now();
  const bool sound = verify(program).empty();
  const double verifying = seconds_since(start);
  start = std::chrono::steady_clock::now();
  const StepTimes times = planner::time_ops(job, program);
  const Trace trace = planner::walk(program, times, {.keep_timings = false});
  const double walking = seconds_since(start);
  std::size_t ops = 0;
  for (const Program& role : program.roles) {
    ops += role.ops.size();
  }
  fmt::print(
      "{} {} on {} GPUs: {} ops in {} roles; lower {:.3f} s, verify {:.3f} s{}, time and walk "
      "{:.3f} s; step {:.3f} s\n",
      model, short_form, plan.gpus(), ops, program.roles.size(), lowering, verifying,
      sound ? "" : " (NOT SOUND)", walking, to_seconds(trace.step_times.front()).value);
}

}  // namespace
}  // namespace trireme

int main() {
  fmt::print("{}\n", trireme::machine());
  trireme::measure("llama-3.1-405b", "dgx-h100x2048", "tp8.pp16.fsdp128.mb1", 8192, 64);
  trireme::measure("llama-3.1-405b", "dgx-h100x16384", "tp8.pp16.fsdp128.dp8.mb1", 8192, 64);
  trireme::measure("llama-3.1-8b", "dgx-h100x1", "fsdp8.mb1", 8192, 4);
}
