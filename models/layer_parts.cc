#include "models/layer_parts.h"

#include <array>
#include <cstddef>

namespace trireme::models {
namespace {

constexpr Half kA = Half::kAttention;
constexpr Half kM = Half::kMlp;
constexpr Half kE = Half::kEnds;

constexpr std::array<PartTraits, kPartCount> kParts = {{
    {.part = Part::kQkv, .name = "qkv", .half = kA, .column_parallel = true},
    {.part = Part::kQuery, .name = "q", .half = kA, .column_parallel = true},
    {.part = Part::kKey, .name = "k", .half = kA, .column_parallel = true},
    {.part = Part::kValue, .name = "v", .half = kA, .column_parallel = true},
    {.part = Part::kQueryDown, .name = "q_down", .half = kA},
    {.part = Part::kQueryUp,
     .name = "q_up",
     .half = kA,
     .modules = kMlaUpProjection,
     .column_parallel = true},
    {.part = Part::kKeyValueDown, .name = "kv_down", .half = kA},
    {.part = Part::kKeyValueUp,
     .name = "kv_up",
     .half = kA,
     .modules = kMlaUpProjection,
     .column_parallel = true},
    {.part = Part::kScores,
     .name = "scores",
     .half = kA,
     .modules = kCoreAttention,
     .stays_wide = true},
    {.part = Part::kContext,
     .name = "context",
     .half = kA,
     .modules = kCoreAttention,
     .stays_wide = true},
    {.part = Part::kAttentionOutput, .name = "attention_output", .half = kA, .row_parallel = true},
    {.part = Part::kMlpUp, .name = "mlp_up", .half = kM, .modules = kMlp, .column_parallel = true},
    {.part = Part::kMlpGate,
     .name = "mlp_gate",
     .half = kM,
     .modules = kMlp,
     .column_parallel = true},
    {.part = Part::kMlpDown,
     .name = "mlp_down",
     .half = kM,
     .modules = kMlp,
     .row_parallel = true,
     .closes_layer = true},
    {.part = Part::kSharedUp, .name = "shared_up", .half = kM, .modules = kSharedExperts},
    {.part = Part::kSharedGate, .name = "shared_gate", .half = kM, .modules = kSharedExperts},
    {.part = Part::kSharedDown, .name = "shared_down", .half = kM, .modules = kSharedExperts},
    {.part = Part::kRouter, .name = "router", .half = kM, .modules = kMoe, .stays_wide = true},
    {.part = Part::kExpertsUp, .name = "experts_up", .half = kM, .modules = kMoe, .routed = true},
    {.part = Part::kExpertsDown,
     .name = "experts_down",
     .half = kM,
     .modules = kMoe,
     .routed = true},
    {.part = Part::kProjectIn, .name = "project_in", .half = kE, .stays_wide = true},
    {.part = Part::kProjectOut, .name = "project_out", .half = kE, .stays_wide = true},
    {.part = Part::kHead, .name = "head", .half = kE, .stays_wide = true},
    {.part = Part::kTokenProjection, .name = "token_projection", .half = kA},
    {.part = Part::kAttentionNorm, .name = "attention_norm", .half = kA, .modules = kLayerNorm},
    {.part = Part::kHeadNorm, .name = "head_norm", .half = kA, .modules = kLayerNorm},
    {.part = Part::kQkvBias, .name = "qkv_bias", .half = kA},
    {.part = Part::kQkvLayout, .name = "qkv_layout", .half = kA, .modules = kMlaUpProjection},
    {.part = Part::kInputGradientSum, .name = "gradient_sum", .half = kA},
    {.part = Part::kRotary, .name = "rotary", .half = kA, .modules = kMlaUpProjection},
    {.part = Part::kSoftmax, .name = "softmax", .half = kA, .modules = kCoreAttention},
    {.part = Part::kScoresDropout, .name = "scores_dropout", .half = kA},
    {.part = Part::kAttentionLayout, .name = "attention_layout", .half = kA},
    {.part = Part::kAttentionOutputBias, .name = "attention_output_bias", .half = kA},
    {.part = Part::kAttentionResidual, .name = "attention_residual", .half = kA},
    {.part = Part::kMlpNorm, .name = "mlp_norm", .half = kM, .modules = kLayerNorm},
    {.part = Part::kMlpInputGradientSum, .name = "mlp_gradient_sum", .half = kM},
    {.part = Part::kActivation, .name = "activation", .half = kM, .modules = kMlp},
    {.part = Part::kMlpBias, .name = "mlp_bias", .half = kM},
    {.part = Part::kSharedActivation,
     .name = "shared_activation",
     .half = kM,
     .modules = kSharedExperts},
    {.part = Part::kRouting, .name = "routing", .half = kM, .modules = kMoe},
    {.part = Part::kPermute, .name = "permute", .half = kM, .modules = kMoe, .routed = true},
    {.part = Part::kExpertActivation,
     .name = "expert_activation",
     .half = kM,
     .modules = kMoe | kMoeActivation,
     .routed = true},
    {.part = Part::kUnpermute, .name = "unpermute", .half = kM, .modules = kMoe, .routed = true},
    {.part = Part::kMlpResidual, .name = "mlp_residual", .half = kM, .closes_layer = true},
    {.part = Part::kEmbedding, .name = "embedding", .half = kE},
    {.part = Part::kEmbeddingGradient, .name = "embedding_gradient", .half = kE},
    {.part = Part::kVocabularyMask, .name = "vocabulary_mask", .half = kE},
    {.part = Part::kPosition, .name = "position", .half = kE},
    {.part = Part::kEmbeddingNorm, .name = "embedding_norm", .half = kE},
    {.part = Part::kEmbeddingDropout, .name = "embedding_dropout", .half = kE},
    {.part = Part::kFinalNorm, .name = "final_norm", .half = kE},
    {.part = Part::kCrossEntropy, .name = "cross_entropy", .half = kE},
    {.part = Part::kTokenNorm, .name = "token_norm", .half = kA},
    {.part = Part::kConcatenate, .name = "concatenate", .half = kA},
    {.part = Part::kAdapter, .name = "adapter", .half = kE},
    {.part = Part::kDequantise, .name = "dequantise", .half = kE},
}};

constexpr std::array<KeptTraits, kKeptCount> kTensors = {{
    {.kept = Kept::kAttentionNormInput, .name = "norm1_input", .half = kA, .is_stream = true},
    {.kept = Kept::kAttentionNormOutput,
     .name = "norm1_output",
     .half = kA,
     .modules = kLayerNorm,
     .feeds_product = true,
     .narrow = true},
    {.kept = Kept::kNormFp32, .name = "norm_fp32", .half = kA, .decomposed_norm = true},
    {.kept = Kept::kQueryLatent, .name = "q_latent", .half = kA},
    {.kept = Kept::kKeyValueLatent, .name = "kv_latent", .half = kA},
    {.kept = Kept::kQuery, .name = "q", .half = kA, .modules = kMlaUpProjection},
    {.kept = Kept::kKey, .name = "k", .half = kA, .modules = kMlaUpProjection},
    {.kept = Kept::kValue, .name = "v", .half = kA, .modules = kMlaUpProjection},
    {.kept = Kept::kSoftmaxStatistics,
     .name = "softmax_statistics",
     .half = kA,
     .modules = kCoreAttention,
     .always_fp32 = true},
    {.kept = Kept::kSoftmaxOutput, .name = "softmax_output", .half = kA, .modules = kCoreAttention},
    {.kept = Kept::kSoftmaxDropoutMask,
     .name = "softmax_dropout_mask",
     .half = kA,
     .modules = kCoreAttention},
    {.kept = Kept::kSoftmaxDropped,
     .name = "softmax_dropped",
     .half = kA,
     .modules = kCoreAttention},
    {.kept = Kept::kAttentionOutput, .name = "attention_output", .half = kA, .feeds_product = true},
    {.kept = Kept::kAttentionOutputCopy,
     .name = "attention_output_copy",
     .half = kA,
     .output_copy = true},
    {.kept = Kept::kAttentionDropoutMask, .name = "attention_dropout_mask", .half = kA},
    {.kept = Kept::kMlpNormInput, .name = "norm2_input", .half = kM, .is_stream = true},
    // Transformer Engine fuses the norm into the first product, so it is recomputed with it.
    {.kept = Kept::kMlpNormOutput,
     .name = "norm2_output",
     .half = kM,
     .modules = kLayerNorm,
     .engine_modules = kMlp,
     .feeds_product = true,
     .narrow = true},
    {.kept = Kept::kMlpNormFp32, .name = "norm_fp32", .half = kM, .decomposed_norm = true},
    {.kept = Kept::kMlpActivationInput,
     .name = "mlp_activation_input",
     .half = kM,
     .modules = kMlp},
    {.kept = Kept::kMlpGateOutput, .name = "mlp_gate_output", .half = kM, .modules = kMlp},
    {.kept = Kept::kMlpDownInput,
     .name = "mlp_down_input",
     .half = kM,
     .modules = kMlp,
     .feeds_product = true,
     .narrow = true},
    {.kept = Kept::kRouter, .name = "router", .half = kM, .modules = kMoe, .always_fp32 = true},
    {.kept = Kept::kExpertInput,
     .name = "expert_input",
     .half = kM,
     .modules = kMoe,
     .feeds_product = true,
     .narrow = true},
    {.kept = Kept::kExpertActivationInput,
     .name = "expert_activation_input",
     .half = kM,
     .modules = kMoe},
    {.kept = Kept::kExpertGateOutput, .name = "expert_gate_output", .half = kM, .modules = kMoe},
    {.kept = Kept::kExpertDownInput,
     .name = "expert_down_input",
     .half = kM,
     .modules = kMoe | kMoeActivation,
     .feeds_product = true,
     .narrow = true},
    {.kept = Kept::kSharedActivationInput,
     .name = "shared_activation_input",
     .half = kM,
     .modules = kMoe | kSharedExperts},
    {.kept = Kept::kSharedGateOutput,
     .name = "shared_gate_output",
     .half = kM,
     .modules = kMoe | kSharedExperts},
    {.kept = Kept::kSharedDownInput,
     .name = "shared_down_input",
     .half = kM,
     .modules = kMoe | kSharedExperts,
     .feeds_product = true,
     .narrow = true},
    {.kept = Kept::kMlpDropoutMask, .name = "mlp_dropout_mask", .half = kM},
    {.kept = Kept::kTokenStreams, .name = "token_streams", .half = kA, .feeds_product = true},
}};

constexpr bool rows_are_in_enum_order() {
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    if (static_cast<std::size_t>(kParts[i].part) != i) {
      return false;
    }
  }
  for (std::size_t i = 0; i < kTensors.size(); ++i) {
    if (static_cast<std::size_t>(kTensors[i].kept) != i) {
      return false;
    }
  }
  return true;
}
static_assert(rows_are_in_enum_order());

}  // namespace

const PartTraits& traits_of(Part part) {
  return kParts[static_cast<std::size_t>(part)];
}

const KeptTraits& traits_of(Kept kept) {
  return kTensors[static_cast<std::size_t>(kept)];
}

}  // namespace trireme::models
