#include "planner/cost/in_flight.h"

#include <algorithm>

namespace trireme::planner {

namespace {

// Megatron's order: groups of p micro-batches, all chunks of a group in turn.
std::int64_t interleaved(const Plan& plan, std::int64_t rank, std::int64_t chunk) {
  const std::int64_t stages = plan.pipeline;
  const std::int64_t chunks = plan.virtual_pipeline;
  const std::int64_t steps =
      std::min(plan.micro_batches * chunks, (chunks - 1) * stages + 2 * (stages - 1 - rank) + 1);
  const std::int64_t cycle = stages * chunks;
  return steps / cycle * stages +
         std::clamp<std::int64_t>(steps % cycle - chunk * stages, 0, stages);
}

}  // namespace

InFlight in_flight(const Plan& plan, std::int64_t rank, std::int64_t chunk) {
  const std::int64_t stages = plan.pipeline;
  std::int64_t whole = plan.micro_batches;
  std::int64_t waiting = 0;
  switch (plan.schedule) {
    case Schedule::kGpipe:
      break;
    case Schedule::kOneForwardOneBackward:
      whole = stages - rank;
      break;
    case Schedule::kZeroBubbleH1:
      whole = stages - rank;
      waiting = rank;
      break;
    case Schedule::kZeroBubbleH2:
      whole = 2 * (stages - rank) - 1;
      waiting = 2 * rank;
      break;
    case Schedule::kInterleaved:
      whole = plan.virtual_pipeline > 1 ? interleaved(plan, rank, chunk) : stages - rank;
      break;
  }
  whole = std::min(whole, plan.micro_batches);
  waiting = std::min(waiting, plan.micro_batches - whole);
  return {static_cast<double>(whole), static_cast<double>(waiting)};
}

}  // namespace trireme::planner
