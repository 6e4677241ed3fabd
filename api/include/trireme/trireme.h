// Trireme as a library: values in, values out. No function keeps anything between calls or writes
// to the terminal; all may be called from any number of threads at once. Wrong input is an Error
// with the one line that the program prints; an answer that happens to be "no" (a layout that does
// not fit) is a value.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "trireme/options.h"
#include "trireme/results.h"

#define TRIREME_API __attribute__((visibility("default")))

namespace trireme::api {

// what(): "--tp: …", "config.json#/hidden_size: …", what is wrong and what would be right.
class TRIREME_API Error : public std::runtime_error {
 public:
  Error(const std::string& line, bool machine_lacks);
  // The machine lacks what was asked for (no GPU, no NCCL); else the input is wrong.
  [[nodiscard]] bool machine_lacks() const { return machine_lacks_; }

 private:
  bool machine_lacks_;
};

TRIREME_API std::string version();  // "0.1.0"

TRIREME_API std::vector<Model> models();  // the presets
TRIREME_API Model model(const std::string& name_or_file);
TRIREME_API std::vector<Cluster> clusters();  // the presets, one node of each

// One layout's memory and step time in closed form.
TRIREME_API Estimate estimate(const Job& job, const Layout& layout = {});
// The same through the discrete-event simulator.
TRIREME_API Simulation simulate(const Job& job, const Layout& layout = {},
                                const SimulateOptions& options = {});
// The best layouts of a job.
TRIREME_API Plan plan(const Job& job, const PlanOptions& options = {});
// Every legal layout of a job, estimated: the table that plan need not look at in full.
TRIREME_API Sweep sweep(const Job& job, const SweepOptions& options = {});
// What would change if: things varied, alone or crossed.
TRIREME_API WhatIf whatif(const Job& job, const WhatIfOptions& options);
// A launch file's broken rules, what to expect of it, and a better layout. `job` overrides what the
// file says.
TRIREME_API Check check(const std::string& file, const Job& job = {},
                        const CheckOptions& options = {});
// Fits a profile to measurements and writes it.
TRIREME_API Calibration calibrate(const Job& job, const CalibrateOptions& options);

// Any command that has --json: {"topo", "show"}, {"--cluster", "dgx-h100x2"}.
struct Answer {
  std::string json;
  bool yes = true;  // false: the answer is "no" (exit code 1 of the program)
};
TRIREME_API Answer ask(const std::vector<std::string>& command,
                       const std::vector<std::string>& arguments);

}  // namespace trireme::api
