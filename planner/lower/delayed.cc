#include "planner/lower/delayed.h"

#include "core/check.h"
#include "planner/plan/narrow.h"

namespace trireme::planner::lowering {
namespace {

constexpr std::int64_t kTensors = 3;     // of a product
constexpr std::int64_t kScaleApart = 4;  // from one scale to the next (core/kernels.h)

std::int64_t products_of(const models::Transformer& model, std::int64_t layer) {
  const std::int64_t attention = model.latent ? (model.latent->q_lora > 0 ? 6 : 5) : 2;
  const bool shares = model.moe && model.moe->shared_ffn > 0 && models::is_moe_layer(model, layer);
  return attention + 2 + (shares ? 2 : 0);
}

}  // namespace

DelayedScales::DelayedScales(const Job& job, const Groups& groups, const StageParameters& stage,
                             ProgramBuilder& builder)
    : groups_(groups), builder_(builder), steps_(job.framework.fp8_history) {
  if (!multiplies_narrow(job) || job.framework.fp8_recipe != Fp8Recipe::kDelayed) {
    return;
  }
  for (const Chunk& chunk : stage.chunks) {
    for (std::int64_t layer = chunk.first; layer < chunk.last; ++layer) {
      products_ += products_of(job.model, layer);
    }
  }
}

void DelayedScales::begin_step() {
  if (products_ == 0) {
    return;
  }
  const std::int64_t tensors = kTensors * products_;
  history_ = builder_.persistent_buffer("fp8_history", steps_ * tensors, ElementType::kMaster);
  scales_ = builder_.buffer("fp8_scales", kScaleApart * tensors, ElementType::kMaster);
  builder_.compute("fp8_scales", Kernel::kDelayedScales, {tensors, steps_, 2 * products_},
                   {history_, scales_});
}

void DelayedScales::end_step() {
  if (products_ == 0) {
    return;
  }
  const Operand largest = part(history_, 0, kTensors * products_);
  for (const GroupId group : {groups_.tensor, groups_.context, groups_.data}) {
    if (group != kNoGroup) {
      builder_.all_reduce("fp8_largest", group, Reduction::kMax, largest, largest, Stream::kReduce);
    }
  }
}

std::int64_t DelayedScales::place(const Slot& weight, Tensor tensor) {
  const auto [found, added] =
      places_.try_emplace({weight.unit, weight.offset}, static_cast<std::int64_t>(places_.size()));
  TRIREME_CHECK(found->second < products_);
  return static_cast<std::int64_t>(tensor) * products_ + found->second;
}

Operand DelayedScales::scale(const Slot& weight, Tensor tensor) {
  return part(scales_, kScaleApart * place(weight, tensor), 1);
}

Operand DelayedScales::largest(const Slot& weight, Tensor tensor) {
  return part(history_, place(weight, tensor), 1);
}

}  // namespace trireme::planner::lowering
