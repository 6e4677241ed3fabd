#include "planner/plan/narrow.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "core/kernels.h"
#include "planner/plan/shape.h"

namespace trireme::planner {
namespace {

// What of the job the runtime does not compute in 8 bits ("experts"); empty: all that is meant to.
std::string_view part_without_narrow(const Job& job) {
  const models::Transformer& model = job.model;
  const std::pair<bool, std::string_view> parts[] = {
      {model.multi_token_layers > 0, "extra prediction modules"},
      {model.position == models::Position::kAlibi, "ALiBi"},
      {model.attention_sinks, "attention sinks"}};
  for (const auto& [is_there, part] : parts) {
    if (is_there) {
      return part;
    }
  }
  return {};
}

struct Extent {
  std::int64_t elements = 0;
  const char* what = "";
};

bool has_dense_layers(const models::Transformer& model) {
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    if (!models::is_moe_layer(model, layer)) {
      return true;
    }
  }
  return false;
}

void add_attention(const Job& job, const Shape& s, std::vector<Extent>& extents) {
  extents.push_back({s.attention, "attention elements on a rank"});
  if (!job.model.latent) {
    extents.push_back({s.qkv, "query, key and value elements on a rank"});
    return;
  }
  const models::LatentAttention& latent = *job.model.latent;
  extents.insert(
      extents.end(),
      {{s.local_tokens, "tokens of the stream on a rank"},
       {latent.q_lora, "elements of a query's latent"},
       {latent.kv_lora, "elements of a key's latent"},
       {latent.qk_rope, "elements of a rotary key"},
       {s.heads * (latent.qk_nope + latent.qk_rope), "query elements on a rank"},
       {s.heads * (latent.qk_nope + latent.v_head), "key and value elements on a rank"}});
}

// Of every product that multiplies in 8 bits. How many rows come to an expert is free.
std::vector<Extent> extents_of(const Job& job, const Plan& plan) {
  const Shape s = shape_of(job, plan);
  std::vector<Extent> extents = {{s.tokens, "tokens of a micro-batch on a rank"},
                                 {s.hidden, "elements of a token"}};
  add_attention(job, s, extents);
  if (has_dense_layers(job.model)) {
    extents.push_back({s.ffn, "inner elements of the MLP on a rank"});
  }
  if (job.model.moe) {
    extents.push_back({job.model.moe->expert_ffn / expert_ranks(job, plan).inner,
                       "inner elements of an expert on a rank"});
    extents.push_back(
        {job.model.moe->shared_ffn / plan.tensor, "inner elements of the shared expert on a rank"});
  }
  return extents;
}

}  // namespace

std::string narrow_refusal(const Job& job) {
  if (job.precision == topologies::Precision::kFp4) {
    return "training in 4 bits can be predicted, not executed";
  }
  if (job.precision != topologies::Precision::kFp8) {
    return "";
  }
  if (const auto part = part_without_narrow(job); !part.empty()) {
    return fmt::format("{} under fp8 can be predicted, not executed; bf16 runs them", part);
  }
  if (job.model.moe && job.framework.fp8_recipe == Fp8Recipe::kBlockwise) {
    return "routed experts under fp8_recipe=blockwise have no program; tensorwise and delayed run "
           "them";
  }
  return "";
}

std::string narrow_refusal(const Job& job, const Plan& plan) {
  if (job.precision != topologies::Precision::kFp8) {
    return "";
  }
  const bool blocks = job.framework.fp8_recipe == Fp8Recipe::kBlockwise;
  const std::int64_t multiple = blocks ? kScaleBlock : kNarrowMultiple;
  for (const Extent& extent : extents_of(job, plan)) {
    if (extent.elements % multiple != 0) {
      return fmt::format("fp8{} multiplies in multiples of {}: {} {} are none",
                         blocks ? " by blocks" : "", multiple, extent.elements, extent.what);
    }
  }
  return "";
}

bool multiplies_narrow(const Job& job) {
  return job.framework.implementation == models::Implementation::kTrireme &&
         job.precision == topologies::Precision::kFp8 && part_without_narrow(job).empty() &&
         !(job.model.moe && job.framework.fp8_recipe == Fp8Recipe::kBlockwise);
}

double bytes_of_code(const Job& job) {
  constexpr double kScaleBytes = 4;
  const bool blocks = job.framework.fp8_recipe == Fp8Recipe::kBlockwise;
  return 1 + (blocks ? kScaleBytes / kScaleBlock : 0);
}

KeptCodes kept_codes(const Job& job, const Plan& plan) {
  const bool moves = job.offload.activations != OffloadTo::kNone;
  if (!multiplies_narrow(job) || plan.recompute == Recompute::kFull || moves ||
      job.training.has_adapters()) {
    return {};
  }
  const int repeated = plan.recompute == Recompute::kSelective ? plan.recompute_modules : 0;
  const bool norms = (repeated & (kLayerNorm | kTorchPerOp)) != 0;
  const bool mlp = (repeated & (kMlp | kTorchPerOp)) != 0;
  const bool whole = !plan.sequence_parallel && !norms;
  const bool experts = (repeated & kMoe) == 0;
  return {.qkv = whole && !job.model.latent,
          .up = whole && !mlp,
          .down = !mlp,
          .experts_up = experts,
          .experts_down = experts && (repeated & kMoeActivation) == 0,
          .shared_down = experts && (repeated & kSharedExperts) == 0};
}

}  // namespace trireme::planner
