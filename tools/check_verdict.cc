#include "tools/check_verdict.h"

#include <fmt/format.h>

namespace trireme::tools {
namespace {

using planner::Fit;

// A ZeRO-2 run of a 14B model held 79.6 of what is taken for 76.8 GiB: nearer than that to the
// capacity nothing is refused that may as well recompute otherwise.
constexpr double kEdge = 1.04;

// The same plan with every layer recomputed.
planner::MemoryEstimate recomputed(const planner::LaunchCase& found) {
  planner::Plan plan = found.plan;
  plan.recompute = planner::Recompute::kFull;
  plan.recompute_layers = -1;
  planner::Estimate estimate;
  planner::Estimator(found.job).estimate(plan, estimate);
  return estimate.memory;
}

}  // namespace

Verdict verdict_of(const planner::LaunchConfig& config, const planner::LaunchCase& found,
                   const planner::Estimate& estimate, bool fits_elsewhere) {
  if (!found.unset.empty()) {
    return {false, fmt::format("the file does not set {}: taken at the framework's default here; "
                               "give the value after --",
                               fmt::join(found.unset, ", "))};
  }
  if (estimate.memory.fit != Fit::kNo) {
    return {};
  }
  const double needed = estimate.memory.reserved_low_gib;
  if (!config.unmodelled.empty()) {
    return {false, fmt::format("{} {} not modelled; without {} it would need {:.1f} of {:.1f} GiB",
                               fmt::join(config.unmodelled, ", "),
                               config.unmodelled.size() == 1 ? "is" : "are",
                               config.unmodelled.size() == 1 ? "it" : "them", needed,
                               estimate.memory.capacity_gib)};
  }
  if (found.job.offload.any()) {
    return {false,
            fmt::format("what stays on a GPU under offloading ({}) is known roughly; {:.1f} of "
                        "{:.1f} GiB predicted",
                        planner::to_text(found.job.offload), needed, estimate.memory.capacity_gib)};
  }
  if (found.recompute_is_open) {
    const planner::MemoryEstimate full = recomputed(found);
    if (full.fit != Fit::kNo || full.reserved_low_gib < kEdge * full.capacity_gib) {
      return {false,
              fmt::format("the file does not say whether layers recompute: {:.1f} GiB without, "
                          "{:.1f} with, of {:.1f}; --recompute none or full tells",
                          needed, full.reserved_low_gib, estimate.memory.capacity_gib)};
    }
  }
  if (fits_elsewhere) {
    return {false, fmt::format("it depends on what the file leaves open ({})",
                               planner::line_of(config, config.undecided.front().line))};
  }
  return {};
}

}  // namespace trireme::tools
