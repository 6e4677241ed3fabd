#include "planner/plan/narrow.h"

#include <utility>

namespace trireme::planner {

std::string_view part_without_narrow(const Job& job) {
  const models::Transformer& model = job.model;
  const std::pair<bool, std::string_view> parts[] = {
      {model.moe.has_value(), "experts"},
      {model.latent.has_value(), "latent attention"},
      {model.multi_token_layers > 0, "extra prediction modules"},
      {model.position == models::Position::kAlibi, "ALiBi"},
      {model.attention_sinks, "attention sinks"},
      {job.training.has_adapters(), "adapters"},
      {job.training.frozen_layers > 0, "frozen layers"}};
  for (const auto& [is_there, part] : parts) {
    if (is_there) {
      return part;
    }
  }
  return {};
}

bool multiplies_narrow(const Job& job) {
  return job.framework.implementation == models::Implementation::kTrireme &&
         job.precision == topologies::Precision::kFp8 && part_without_narrow(job).empty();
}

KeptCodes kept_codes(const Job& job, const Plan& plan) {
  const bool moves = job.offload.activations != OffloadTo::kNone;
  if (!multiplies_narrow(job) || plan.recompute == Recompute::kFull || moves) {
    return {};
  }
  const int repeated = plan.recompute == Recompute::kSelective ? plan.recompute_modules : 0;
  const bool norms = (repeated & (kLayerNorm | kTorchPerOp)) != 0;
  const bool mlp = (repeated & (kMlp | kTorchPerOp)) != 0;
  const bool whole = !plan.sequence_parallel && !norms;
  return {.qkv = whole, .up = whole && !mlp, .down = !mlp};
}

}  // namespace trireme::planner
