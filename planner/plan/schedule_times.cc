#include "planner/plan/schedule_times.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "planner/plan/stages.h"

namespace trireme::planner {
namespace {

double seconds_of_pass(ActionKind kind, const PassSeconds& chunk) {
  switch (kind) {
    case ActionKind::kForward:
      return chunk.forward;
    case ActionKind::kBackward:
      return chunk.input_gradient + chunk.weight_gradient;
    case ActionKind::kInputGradient:
      return chunk.input_gradient;
    case ActionKind::kWeightGradient:
      return chunk.weight_gradient;
  }
  return 0;
}

class ScheduleClock {
 public:
  ScheduleClock(const Plan& plan, const std::vector<PassSeconds>& chunks, double message)
      : plan_(plan), chunks_(chunks), message_(message) {
    const auto passes =
        static_cast<std::size_t>(plan.pipeline * plan.virtual_pipeline * plan.micro_batches);
    outputs_.assign(passes, kNotYet);
    gradients_.assign(passes, kNotYet);
  }

  ScheduleTimes run() {
    const auto ranks = static_cast<std::size_t>(plan_.pipeline);
    for (std::int64_t rank = 0; rank < plan_.pipeline; ++rank) {
      times_.actions.push_back(schedule_micro_batches(plan_, rank));
    }
    times_.begins.resize(ranks);
    now_.assign(ranks, 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        while (times_.begins[rank].size() < times_.actions[rank].size() && begin_next(rank)) {
          moved = true;
        }
      }
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      TRIREME_CHECK(times_.begins[rank].size() == times_.actions[rank].size());
      times_.end = std::max(times_.end, now_[rank]);
    }
    return std::move(times_);
  }

 private:
  static constexpr double kNotYet = -1;

  [[nodiscard]] std::size_t place(std::int64_t chunk, std::int32_t micro_batch) const {
    return static_cast<std::size_t>(chunk * plan_.micro_batches + micro_batch);
  }

  // When what another chunk hands on is here; kNotYet while that has not begun.
  [[nodiscard]] double arrival(const std::vector<double>& handed, std::int64_t from,
                               std::int32_t micro_batch, std::size_t rank) const {
    const double there = handed[place(from, micro_batch)];
    const bool stays = rank_of_chunk(plan_, from) == static_cast<std::int64_t>(rank);
    return there == kNotYet || stays ? there : there + message_;
  }

  bool begin_next(std::size_t rank) {
    const Action& action = times_.actions[rank][times_.begins[rank].size()];
    const std::int64_t chunk = chunk_of_rank(plan_, static_cast<std::int64_t>(rank), action.chunk);
    const bool forward = action.kind == ActionKind::kForward;
    double input = 0;
    if (forward && chunk > 0) {
      input = arrival(outputs_, chunk - 1, action.micro_batch, rank);
    } else if (!forward && action.kind != ActionKind::kWeightGradient &&
               chunk + 1 < static_cast<std::int64_t>(chunks_.size())) {
      input = arrival(gradients_, chunk + 1, action.micro_batch, rank);
    }
    if (input == kNotYet) {
      return false;
    }
    const PassSeconds& pass = chunks_[static_cast<std::size_t>(chunk)];
    const double before = forward ? 0 : pass.before_gradient;
    const double begin = std::max(now_[rank], input - before);
    times_.begins[rank].push_back(begin);
    now_[rank] = begin + seconds_of_pass(action.kind, pass);
    if (action.kind != ActionKind::kWeightGradient) {
      (forward ? outputs_ : gradients_)[place(chunk, action.micro_batch)] = now_[rank];
    }
    return true;
  }

  const Plan& plan_;
  const std::vector<PassSeconds>& chunks_;
  double message_;
  std::vector<double> outputs_, gradients_;  // by chunk and micro-batch: when a pass ended
  std::vector<double> now_;                  // by rank
  ScheduleTimes times_;
};

}  // namespace

ScheduleTimes time_schedule(const Plan& plan, const std::vector<PassSeconds>& chunks,
                            double message) {
  return ScheduleClock(plan, chunks, message).run();
}

}  // namespace trireme::planner
