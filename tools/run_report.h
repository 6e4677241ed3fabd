// What `trireme run` tells: one live line while it runs, a table at the end, and the files that
// were asked for.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/op_times.h"
#include "core/program.h"
#include "core/trace.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"
#include "runtime/train.h"
#include "tools/options.h"
#include "tools/program.h"
#include "tools/time_split.h"

namespace trireme::tools {

struct RunDescription {
  JobOptions options;  // as given, with the plan file's
  planner::Job job;
  planner::Plan plan;
  StepProgram program;
  std::string backend;                 // "cpu", "cuda"
  std::string precision;               // "bf16", "fp32", "fp64"
  std::string device;                  // "NVIDIA H100 80GB HBM3", or the CPU's name
  double peak_flops = 0;               // of one device at this precision; 0: unknown, no MFU
  std::string peak_source;             // whose datasheet says so
  std::optional<StepTimes> predicted;  // when a cluster was named
  std::uint64_t seed = 0;
  bool deterministic = false;           // asked for; the cpu backend always is
  std::string result_file, trace_file;  // empty: none
  bool json = false;                    // the result on stdout instead of the table
};

// Says which GPU the run is on, as its driver names it, and with it the rate that MFU is against:
// that card's, or of the cluster that was named when the card is unknown.
void name_device(RunDescription& run, const std::string& driver_name);

class RunReport {
 public:
  RunReport(const RunDescription& run, Console& console) : run_(&run), console_(&console) {}
  void step(std::int64_t number, runtime::StepResults results);
  // Writes files and prints. Throws Error when a file cannot be written.
  void finish(const std::vector<runtime::MemoryUse>& memory);

 private:
  struct Step {
    std::int64_t number = 0;
    double seconds = 0, loss = 0, gradient_norm = 0;
    bool timed = false;
  };
  [[nodiscard]] double median_step() const;
  [[nodiscard]] double model_tflops(double seconds) const;  // per device
  [[nodiscard]] std::optional<double> mfu(double seconds) const;
  [[nodiscard]] nlohmann::ordered_json result_json(const std::vector<runtime::MemoryUse>& memory,
                                                   const Trace& trace,
                                                   const TimeSplit& split) const;
  void print_result(const std::vector<runtime::MemoryUse>& memory, const TimeSplit& split) const;

  const RunDescription* run_;
  Console* console_;
  std::vector<Step> steps_;
  std::vector<std::vector<runtime::StepResult>> timed_;  // by rank, then timed step
};

}  // namespace trireme::tools
