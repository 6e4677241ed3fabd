// What no layout of a job can undercut on its cards.
#pragma once

#include <string>
#include <vector>

#include "planner/cost/estimate.h"
#include "planner/plan/job.h"

namespace trireme::tools {

struct LimitItem {
  std::string name;
  double seconds = 0;
};
// The model's FLOP (half of the scores of causal attention, nothing recomputed) at the dense peak
// of the precision, and each byte of the optimizer's states read or written once at the datasheet's
// bandwidth, both spread evenly over all GPUs. The items add up to the limit.
std::vector<LimitItem> limit_of(const planner::Job& job, const planner::Estimate& estimate);

}  // namespace trireme::tools
