#include "planner/plan/schedule.h"

#include <algorithm>
#include <array>

namespace trireme::planner {
namespace {

class Order {
 public:
  void forward(std::int64_t micro_batch, std::int64_t chunk = 0) {
    add(ActionKind::kForward, micro_batch, chunk);
  }
  void backward(std::int64_t micro_batch, std::int64_t chunk = 0) {
    add(ActionKind::kBackward, micro_batch, chunk);
  }
  void add(ActionKind kind, std::int64_t micro_batch, std::int64_t chunk = 0) {
    actions_.push_back(
        {kind, static_cast<std::int16_t>(chunk), static_cast<std::int32_t>(micro_batch)});
  }
  std::vector<Action> take() { return std::move(actions_); }

 private:
  std::vector<Action> actions_;
};

std::vector<Action> gpipe(const Plan& plan) {
  Order order;
  for (std::int64_t i = 0; i < plan.micro_batches; ++i) {
    order.forward(i);
  }
  for (std::int64_t i = 0; i < plan.micro_batches; ++i) {
    order.backward(i);
  }
  return order.take();
}

// Narayanan et al. 2021: p - 1 - stage forwards, then forward and backward in turn.
std::vector<Action> one_forward_one_backward(const Plan& plan, std::int64_t stage) {
  const std::int64_t count = plan.micro_batches;
  const std::int64_t warm_up = std::min(count, plan.pipeline - 1 - stage);
  Order order;
  for (std::int64_t i = 0; i < warm_up; ++i) {
    order.forward(i);
  }
  for (std::int64_t i = warm_up; i < count; ++i) {
    order.forward(i);
    order.backward(i - warm_up);
  }
  for (std::int64_t i = count - warm_up; i < count; ++i) {
    order.backward(i);
  }
  return order.take();
}

// Megatron-Core: micro-batches in groups, usually of p; in a group all of chunk 0, then all of
// chunk 1, …; backward step n has the mirrored chunk.
std::vector<Action> interleaved(const Plan& plan, std::int64_t stage) {
  const std::int64_t count = plan.micro_batches;
  const std::int64_t chunks = plan.virtual_pipeline;
  const std::int64_t group = group_size_of(plan);
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;  // micro-batch, chunk
  for (std::int64_t first = 0; first < count; first += group) {
    const std::int64_t last = std::min(count, first + group);
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      for (std::int64_t i = first; i < last; ++i) {
        steps.emplace_back(i, chunk);
      }
    }
  }
  const auto total = static_cast<std::int64_t>(steps.size());
  const std::int64_t warm_up =
      std::min(total, 2 * (plan.pipeline - 1 - stage) + (chunks - 1) * group);
  Order order;
  const auto forward = [&](std::int64_t n) {
    const auto& [micro_batch, chunk] = steps[static_cast<std::size_t>(n)];
    order.forward(micro_batch, chunk);
  };
  const auto backward = [&](std::int64_t n) {
    const auto& [micro_batch, chunk] = steps[static_cast<std::size_t>(n)];
    order.backward(micro_batch, chunks - 1 - chunk);
  };
  for (std::int64_t n = 0; n < warm_up; ++n) {
    forward(n);
  }
  for (std::int64_t n = warm_up; n < total; ++n) {
    forward(n);
    backward(n - warm_up);
  }
  for (std::int64_t n = total - warm_up; n < total; ++n) {
    backward(n);
  }
  return order.take();
}

// Qi et al. 2024: 1F1B with the backward split. A weight gradient follows once more than `waiting`
// input gradients are outstanding, the rest at the end. ZB-H1 has 1F1B's warm-up; ZB-H2 twice as
// many forwards, which fill the bubble that is left.
std::vector<Action> zero_bubble(const Plan& plan, std::int64_t warm_up, std::int64_t waiting) {
  const std::int64_t count = plan.micro_batches;
  const std::int64_t ahead = std::min(count, warm_up);
  Order order;
  std::int64_t weights = 0;
  for (std::int64_t i = 0; i < ahead; ++i) {
    order.forward(i);
  }
  for (std::int64_t inputs = 0; inputs < count; ++inputs) {
    if (inputs + ahead < count) {
      order.forward(inputs + ahead);
    }
    order.add(ActionKind::kInputGradient, inputs);
    if (inputs + 1 - weights > waiting) {
      order.add(ActionKind::kWeightGradient, weights++);
    }
  }
  while (weights < count) {
    order.add(ActionKind::kWeightGradient, weights++);
  }
  return order.take();
}

// Two chunks that lie in a V: counts what was done of each, so that an order says only kinds.
class OrderInV {
 public:
  void forward(std::int16_t chunk) { order_.forward(forwards_[place(chunk)]++, chunk); }
  void backward(std::int16_t chunk) { order_.backward(backwards_[place(chunk)]++, chunk); }
  void input_gradient(std::int16_t chunk) {
    waiting_.push_back(
        {ActionKind::kWeightGradient, chunk, static_cast<std::int32_t>(backwards_[place(chunk)])});
    order_.add(ActionKind::kInputGradient, backwards_[place(chunk)]++, chunk);
  }
  // The one that waits longest.
  void weight_gradient() { take(waiting_.begin()); }
  // Of this chunk; false when none waits.
  bool weight_gradient_of(std::int16_t chunk) {
    const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                    [&](const Action& action) { return action.chunk == chunk; });
    return found != waiting_.end() && take(found);
  }
  [[nodiscard]] std::int64_t forwards(std::int16_t chunk) const {
    return forwards_[static_cast<std::size_t>(chunk)];
  }
  std::vector<Action> take_all() { return order_.take(); }

 private:
  static std::size_t place(std::int16_t chunk) { return static_cast<std::size_t>(chunk); }
  bool take(std::vector<Action>::iterator at) {
    order_.add(at->kind, at->micro_batch, at->chunk);
    waiting_.erase(at);
    return true;
  }

  Order order_;
  std::array<std::int64_t, kChunksInV> forwards_{}, backwards_{};
  std::vector<Action> waiting_;  // weight gradients
};

void times(std::int64_t count, const auto& step) {
  for (std::int64_t i = 0; i < count; ++i) {
    step();
  }
}

// Qi et al. 2024, "Pipeline Parallelism with Controllable Memory", ZB-V: without a bubble where the
// three passes take as long, in the memory of 1F1B. Written for the 2p - 1 micro-batches that fill
// the V at least; of fewer, those that there are take their turns.
std::vector<Action> zero_bubble_v(const Plan& plan, std::int64_t rank) {
  const std::int64_t behind = plan.pipeline - rank;  // this rank among them
  const std::int64_t count = std::max(plan.micro_batches, 2 * plan.pipeline - 1);
  OrderInV order;
  const auto whole = [&](std::int16_t chunk) {
    order.input_gradient(chunk);
    order.weight_gradient_of(chunk);
  };
  times(2 * behind - 1, [&] { order.forward(0); });
  times(rank, [&] {
    order.forward(1);
    order.forward(0);
  });
  times(behind, [&] {
    order.forward(1);
    whole(1);
  });
  while (order.forwards(1) < count) {
    if (order.forwards(0) < count) {
      order.forward(0);
    }
    whole(0);
    order.forward(1);
    whole(1);
  }
  times(rank, [&] {
    order.input_gradient(0);
    order.input_gradient(1);
  });
  times(behind, [&] {
    order.input_gradient(0);
    order.weight_gradient_of(0);
  });
  while (order.weight_gradient_of(1)) {
  }
  while (order.weight_gradient_of(0)) {
  }
  std::vector<Action> actions = order.take_all();
  std::erase_if(actions,
                [&](const Action& action) { return action.micro_batch >= plan.micro_batches; });
  return actions;
}

// DualPipe (DeepSeek-V3) cut in half: one rank for the two that mirror each other. A forward of one
// chunk stands beside a backward of the other; backwards are split only where nothing else would
// fill the wait: as the first gradients come, and in the last half of the drain. Requires 2p
// micro-batches.
std::vector<Action> dual_pipe_v(const Plan& plan, std::int64_t rank) {
  const std::int64_t behind = plan.pipeline - rank - 1;
  OrderInV order;
  times(2 * behind, [&] { order.forward(0); });
  times(rank + 1, [&] {
    order.forward(0);
    order.forward(1);
  });
  times(behind, [&] {
    order.input_gradient(1);
    order.weight_gradient();
    order.forward(1);
  });
  times(plan.micro_batches - 2 * plan.pipeline + rank + 1, [&] {
    order.forward(0);
    order.backward(1);
    order.forward(1);
    order.backward(0);
  });
  times(behind, [&] {
    order.backward(1);
    order.forward(1);
    order.backward(0);
  });
  const std::int64_t drained = 2 * (rank + 1);
  for (std::int64_t i = 0; i < drained; ++i) {
    const auto chunk = static_cast<std::int16_t>(1 - i % 2);
    if (2 * i < drained) {
      order.backward(chunk);
    } else {
      order.input_gradient(chunk);
    }
  }
  times(behind, [&] {
    order.weight_gradient();
    order.input_gradient(0);
  });
  times(rank + 1, [&] { order.weight_gradient(); });
  return order.take_all();
}

}  // namespace

std::int64_t group_size_of(const Plan& plan) {
  std::int64_t size = plan.pipeline;
  while (size < plan.micro_batches && plan.micro_batches % size != 0) {
    ++size;
  }
  return size;
}

std::vector<Action> schedule_micro_batches(const Plan& plan, std::int64_t stage) {
  if (plan.pipeline == 1 && plan.virtual_pipeline == 1 && plan.schedule != Schedule::kGpipe) {
    return one_forward_one_backward(plan, stage);
  }
  switch (plan.schedule) {
    case Schedule::kGpipe:
      return gpipe(plan);
    case Schedule::kOneForwardOneBackward:
    case Schedule::kInterleaved:
      return plan.virtual_pipeline > 1 ? interleaved(plan, stage)
                                       : one_forward_one_backward(plan, stage);
    case Schedule::kZeroBubbleH1:
      return zero_bubble(plan, plan.pipeline - 1 - stage, stage);
    case Schedule::kZeroBubbleH2:
      return zero_bubble(plan, 2 * (plan.pipeline - 1 - stage), 2 * stage);
    case Schedule::kZeroBubbleV:
      return zero_bubble_v(plan, stage);
    case Schedule::kDualPipeV:
      return dual_pipe_v(plan, stage);
  }
  return {};
}

}  // namespace trireme::planner
