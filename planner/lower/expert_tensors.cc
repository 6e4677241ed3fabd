#include "planner/lower/expert_tensors.h"

namespace trireme::planner::lowering {

void add_router_tensors(const models::Transformer& model, const std::string& prefix,
                        std::int64_t ranks, LayerSlots& slots, std::vector<Tensor>& split,
                        std::vector<Tensor>& whole) {
  const models::MixtureOfExperts& moe = *model.moe;
  const std::int64_t h = model.hidden;
  if (moe.shared_ffn > 0) {
    const std::int64_t own = moe.shared_ffn / ranks;
    if (model.gated_mlp) {
      split.push_back({prefix + "shared.gate.weight", moe.shared_ffn, h, Split::kRows, own, h,
                       &slots.shared_up});
    }
    split.push_back(
        {prefix + "shared.up.weight", moe.shared_ffn, h, Split::kRows, own, h, &slots.shared_up});
    split.push_back({prefix + "shared.down.weight", h, moe.shared_ffn, Split::kColumns, h, own,
                     &slots.shared_down});
  }
  whole.push_back(
      {prefix + "router.weight", moe.experts, h, Split::kNone, moe.experts, h, &slots.router});
  if (moe.router_bias) {
    whole.push_back(
        {prefix + "router.bias", moe.experts, 1, Split::kNone, moe.experts, 1, &slots.router_bias});
  }
}

std::vector<Tensor> expert_tensors(const models::Transformer& model, const std::string& prefix,
                                   const ExpertRanks& ranks, LayerSlots& slots) {
  const models::MixtureOfExperts& moe = *model.moe;
  const std::int64_t h = model.hidden;
  const std::int64_t f = moe.expert_ffn;
  const std::int64_t own = f / ranks.inner;
  const std::int64_t local = moe.experts / ranks.experts;
  std::vector<Tensor> tensors;
  for (std::int64_t expert = 0; expert < local; ++expert) {
    if (model.gated_mlp) {
      tensors.push_back({prefix + "experts.gate.weight", moe.experts * f, h, Split::kRows, own, h,
                         &slots.experts_up, expert * f, local * f});
    }
    tensors.push_back({prefix + "experts.up.weight", moe.experts * f, h, Split::kRows, own, h,
                       &slots.experts_up, expert * f, local * f});
  }
  for (std::int64_t expert = 0; expert < local; ++expert) {
    tensors.push_back({prefix + "experts.down.weight", moe.experts * h, f, Split::kColumns, h, own,
                       &slots.experts_down, expert * h, local * h});
  }
  return tensors;
}

}  // namespace trireme::planner::lowering
