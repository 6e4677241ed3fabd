// How many micro-batches' activations each chunk of a pipeline rank holds at its peak.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "planner/plan/plan.h"

namespace trireme::planner {

// Micro-batches of one virtual chunk: those that wait for their backward, and those of zero-bubble
// schedules whose input gradient is done and whose weight gradient is not.
struct InFlight {
  double whole = 0;
  double weight_gradient = 0;
  // Of `micro_batches` none has its weight gradients yet at that moment.
  [[nodiscard]] bool all_of(std::int64_t micro_batches) const {
    return whole + weight_gradient >= static_cast<double>(micro_batches);
  }
};

// The chunks of one rank: what they share is worked out once.
class RankInFlight {
 public:
  RankInFlight(const Plan& plan, std::int64_t rank);
  [[nodiscard]] InFlight at(std::int64_t chunk) const {
    std::int64_t whole = in_v_[0] > 0 ? in_v_[static_cast<std::size_t>(chunk)] : whole_;
    if (begun_ >= 0) {
      whole += std::clamp<std::int64_t>(begun_ - chunk * stages_, 0, stages_);
    }
    whole = std::min(whole, micro_batches_);
    const std::int64_t waiting = std::min(waiting_, micro_batches_ - whole);
    return {static_cast<double>(whole), static_cast<double>(waiting)};
  }
  // When no forward is to come: as many weight gradients as may wait do. Differs where there are
  // fewer micro-batches than the schedule could hold, and in a V.
  [[nodiscard]] InFlight late(std::int64_t chunk) const;

 private:
  void fill_v(Schedule schedule, std::int64_t rank);
  std::int64_t stages_, micro_batches_;
  std::int64_t whole_;        // of every chunk, before the micro-batches there are
  std::int64_t waiting_ = 0;  // weight gradients
  std::int64_t begun_ = -1;   // interleaved: forwards of the cycle begun, of all chunks
  // Of each chunk in a V, instead of whole_: at the fullest moment, and when no forward is to come.
  std::array<std::int64_t, kChunksInV> in_v_{}, late_in_v_{}, late_waiting_{};
};

// What rank `rank` holds of virtual chunk `chunk` (0 first) at its peak. Sources: GPipe m; 1F1B
// min(m, p - r); Megatron's interleaved order, warm-up 2(p-1-r) + (v-1)p and one more in steady
// state; ZB-H1 1F1B with r weight gradients outstanding; ZB-H2 twice as many forwards in the
// warm-up, 2p - 1 in all (Qi et al. 2024). In a V, when the second chunk has its forward: ZB-V 2p
// chunks in all, as 1F1B's first rank has, DualPipeV one more; weight gradients follow at once
// while forwards come. Of those that are put off at the end, late(): r of each chunk, DualPipeV r +
// 1 of both.
InFlight in_flight(const Plan& plan, std::int64_t rank, std::int64_t chunk);

// Outputs of the first backward's moment that a stage has sent and still holds under ZB-H2, beyond
// those of other schedules: it waits for sends six actions later (planner/lower/stage.cc), which
// are all forwards where so many go ahead, else those of two micro-batches each way.
double held_sends(const Plan& plan, std::int64_t rank);

}  // namespace trireme::planner
