#include "planner/plan/narrow.h"

#include <fmt/format.h>

#include <utility>

#include "planner/plan/shape.h"

namespace trireme::planner {
namespace {

// What of the job the runtime does not compute in 8 bits ("experts"); empty: all that is meant to.
std::string_view part_without_narrow(const Job& job) {
  const models::Transformer& model = job.model;
  const std::pair<bool, std::string_view> parts[] = {
      {model.moe.has_value(), "experts"},
      {model.latent.has_value(), "latent attention"},
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

std::string uneven(std::int64_t extent, const char* what) {
  return extent % kNarrowMultiple == 0
             ? ""
             : fmt::format("fp8 multiplies in multiples of {}: {} {} are none", kNarrowMultiple,
                           extent, what);
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
  return uneven(job.model.hidden, "elements of a token");
}

std::string narrow_refusal(const Job& job, const Plan& plan) {
  if (job.precision != topologies::Precision::kFp8) {
    return "";
  }
  const Shape s = shape_of(job, plan);
  for (const auto& [extent, what] : {std::pair{s.tokens, "tokens of a micro-batch on a rank"},
                                     std::pair{s.qkv, "query, key and value elements on a rank"},
                                     std::pair{s.attention, "attention elements on a rank"},
                                     std::pair{s.ffn, "inner elements of the MLP on a rank"}}) {
    if (std::string refusal = uneven(extent, what); !refusal.empty()) {
      return refusal;
    }
  }
  return "";
}

bool multiplies_narrow(const Job& job) {
  return job.framework.implementation == models::Implementation::kTrireme &&
         job.precision == topologies::Precision::kFp8 && part_without_narrow(job).empty();
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
  return {.qkv = whole, .up = whole && !mlp, .down = !mlp};
}

}  // namespace trireme::planner
