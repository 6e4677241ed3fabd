#include "planner/cost/in_flight.h"

#include <algorithm>

namespace trireme::planner {

double in_flight(const Plan& plan, std::int64_t rank, std::int64_t chunk) {
  const std::int64_t stages = plan.pipeline;
  const std::int64_t micro_batches = plan.micro_batches;
  std::int64_t held = micro_batches;
  switch (plan.schedule) {
    case Schedule::kGpipe:
      break;
    case Schedule::kOneForwardOneBackward:
      held = stages - rank;
      break;
    case Schedule::kZeroBubbleH1:
      held = stages;
      break;
    case Schedule::kZeroBubbleH2:
      held = 2 * stages - 1;
      break;
    case Schedule::kInterleaved: {
      if (plan.virtual_pipeline <= 1) {
        held = stages - rank;
        break;
      }
      // Forward steps before the first backward ends: groups of p micro-batches, all chunks of a
      // group in turn.
      const std::int64_t steps =
          std::min(micro_batches * plan.virtual_pipeline,
                   (plan.virtual_pipeline - 1) * stages + 2 * (stages - 1 - rank) + 1);
      const std::int64_t cycle = stages * plan.virtual_pipeline;
      held = steps / cycle * stages +
             std::clamp<std::int64_t>(steps % cycle - chunk * stages, 0, stages);
      break;
    }
  }
  return static_cast<double>(std::min(held, micro_batches));
}

}  // namespace trireme::planner
