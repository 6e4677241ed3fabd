// From a launch configuration to a job and a plan on a cluster: what the file leaves open is filled
// and listed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/launch/launch_config.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// What the command line says beside the file; it overrides the file.
struct LaunchOptions {
  std::string model = {}, cluster = {}, calibration = {};
  std::optional<std::int64_t> sequence = {}, global_batch = {}, gpus = {}, micro_batch = {};
  std::string framework = {};  // NAME[@VERSION]
  std::string precision = {}, optimizer = {}, attention = {};
  std::string recompute = {}, recompute_modules = {};  // as `estimate` takes them
  std::optional<std::int64_t> recompute_layers = {};
  std::vector<std::string> settings = {};  // KEY=VALUE
};

struct LaunchCase {
  Job job;  // its cluster narrowed to the ranks, when it has so many
  Plan plan;
  std::int64_t world = 0;         // ranks that the file starts
  std::int64_t cluster_gpus = 0;  // of the whole cluster
  bool precision_exists = true;   // the GPU computes in the precision of the file
  std::vector<std::string> filled;
  std::vector<std::string> unset;  // "$MBS (--micro-batch-size, line 2)": nobody says what it is
  bool batch_follows = false;      // the global batch is what the ranks make, and nobody says it
  bool recompute_is_open = false;  // neither the file nor the command line says
  bool is_trial = false;           // made to see whether a fix works: no further fix is looked for
};

// Throws Error: no model, no sequence length, a cluster or profile that cannot be read, a step
// beyond 64 bits. Whether the plan obeys the rules is not asked.
LaunchCase make_launch_case(const LaunchConfig& config, const LaunchOptions& options);

// The degrees of a layout of the file on the ranks that it starts, into found.plan: the ranks that
// the layout leaves open go to what it leaves open, and what it says stays although the product may
// be another number.
void spread_ranks(const LaunchConfig& config, const LaunchLayout& layout, LaunchCase& found);

}  // namespace trireme::planner
