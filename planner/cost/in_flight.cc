#include "planner/cost/in_flight.h"

#include <algorithm>

namespace trireme::planner {

RankInFlight::RankInFlight(const Plan& plan, std::int64_t rank)
    : stages_(plan.pipeline), micro_batches_(plan.micro_batches), whole_(plan.micro_batches) {
  switch (plan.schedule) {
    case Schedule::kGpipe:
      break;
    case Schedule::kOneForwardOneBackward:
      whole_ = stages_ - rank;
      break;
    case Schedule::kZeroBubbleH1:
      whole_ = stages_ - rank;
      waiting_ = rank;
      break;
    case Schedule::kZeroBubbleH2:
      whole_ = 2 * (stages_ - rank) - 1;
      waiting_ = 2 * rank;
      break;
    case Schedule::kZeroBubbleV:
    case Schedule::kDualPipeV:
      whole_ = 1;
      if (stages_ > 1) {
        fill_v(plan.schedule, rank);
      }
      break;
    case Schedule::kInterleaved: {
      whole_ = stages_ - rank;
      if (plan.virtual_pipeline > 1) {
        // Megatron's order: groups of p micro-batches, all chunks of a group in turn.
        const std::int64_t chunks = plan.virtual_pipeline;
        const std::int64_t steps = std::min(micro_batches_ * chunks,
                                            (chunks - 1) * stages_ + 2 * (stages_ - 1 - rank) + 1);
        const std::int64_t cycle = stages_ * chunks;
        whole_ = steps / cycle * stages_;
        begun_ = steps % cycle;
      }
      break;
    }
  }
}

void RankInFlight::fill_v(Schedule schedule, std::int64_t rank) {
  const std::int64_t behind = stages_ - rank;
  if (schedule == Schedule::kDualPipeV) {
    in_v_ = {stages_ + behind, rank + 1};
    late_in_v_ = {behind - 1, 0};
    late_waiting_ = {(rank + 2) / 2, (rank + 1) / 2};
    return;
  }
  in_v_ = {stages_ + behind - 1, rank + 1};
  // Of the micro-batches that its order is written for, those that there are.
  const std::int64_t none = std::max<std::int64_t>(0, 2 * stages_ - 1 - micro_batches_);
  late_in_v_ = {std::clamp<std::int64_t>(behind - none, 0, behind), 0};
  late_waiting_ = {std::clamp<std::int64_t>(stages_ - none, 0, rank),
                   std::clamp<std::int64_t>(rank - none, 0, rank)};
}

InFlight RankInFlight::late(std::int64_t chunk) const {
  if (in_v_[0] > 0) {
    const auto at = static_cast<std::size_t>(chunk);
    return {static_cast<double>(late_in_v_[at]), static_cast<double>(late_waiting_[at])};
  }
  const std::int64_t waiting = std::min(waiting_, micro_batches_);
  const std::int64_t whole = std::min(whole_, micro_batches_ - waiting);
  return {static_cast<double>(whole), static_cast<double>(waiting)};
}

InFlight in_flight(const Plan& plan, std::int64_t rank, std::int64_t chunk) {
  return RankInFlight(plan, rank).at(chunk);
}

double held_sends(const Plan& plan, std::int64_t rank) {
  if (plan.pipeline == 1 || plan.schedule != Schedule::kZeroBubbleH2) {
    return 0;
  }
  const std::int64_t behind = plan.pipeline - 1 - rank;
  const std::int64_t each_way = (behind > 0 ? 2 : 0) + (rank > 0 ? 2 : 0);
  return static_cast<double>(std::max(each_way, std::min<std::int64_t>(6, 2 * behind)));
}

}  // namespace trireme::planner
