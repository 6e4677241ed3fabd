// The parts that a layer, the embedding and the head are made of, and the tensors that they keep
// for backward: a table says what is true of each, and every reader (work lists, memory, lowering,
// the closed form) asks that table. Names are for print only.
#pragma once

#include <cstdint>

namespace trireme::models {

// Modules whose forward selective recompute repeats (Megatron's --recompute-modules); a bit set.
enum RecomputeModule : std::uint16_t {
  kCoreAttention = 1,
  kLayerNorm = 2,
  kMlp = 4,
  kMlaUpProjection = 8,
  kMoe = 16,
  kMoeActivation = 32,
  kSharedExperts = 64,
  kTorchPerOp =
      128,  // torchtitan's "op" policy: keep attention, collectives and every second matmul
};

enum class Half : std::uint8_t { kAttention, kMlp, kEnds };

enum class Part : std::uint8_t {
  // Matrix products.
  kQkv,
  kQuery,
  kKey,
  kValue,
  kQueryDown,
  kQueryUp,
  kKeyValueDown,
  kKeyValueUp,
  kScores,
  kContext,
  kAttentionOutput,
  kMlpUp,
  kMlpGate,
  kMlpDown,
  kSharedUp,
  kSharedGate,
  kSharedDown,
  kRouter,
  kExpertsUp,
  kExpertsDown,
  kProjectIn,
  kProjectOut,
  kHead,
  kTokenProjection,
  // Passes over memory.
  kAttentionNorm,
  kHeadNorm,
  kQkvBias,
  kQkvLayout,
  kInputGradientSum,
  kRotary,
  kSoftmax,
  kScoresDropout,
  kAttentionLayout,
  kAttentionOutputBias,
  kAttentionResidual,
  kMlpNorm,
  kMlpInputGradientSum,
  kActivation,
  kMlpBias,
  kSharedActivation,
  kRouting,
  kPermute,
  kExpertActivation,
  kUnpermute,
  kMlpResidual,
  kEmbedding,
  kEmbeddingGradient,
  kVocabularyMask,
  kPosition,
  kEmbeddingNorm,
  kEmbeddingDropout,
  kFinalNorm,
  kCrossEntropy,
  kTokenNorm,
  kConcatenate,
  kAdapter,     // low-rank products beside a frozen weight, with their passes
  kDequantise,  // a quantised weight unpacked to 16 bits
};
inline constexpr int kPartCount = static_cast<int>(Part::kDequantise) + 1;

struct PartTraits {
  Part part{};
  const char* name = nullptr;
  Half half{};
  std::uint16_t modules = 0;     // recompute modules that repeat it
  bool column_parallel = false;  // its input gradient is summed over the tensor ranks, beside its
                                 // own weight gradient
  bool row_parallel = false;     // its output is
  bool stays_wide = false;       // computed in 16 bits under fp8 and fp4 too
  bool routed = false;           // works on the tokens that came to this rank's experts
  bool closes_layer = false;     // only the layer's output needs it: no backward does
};
const PartTraits& traits_of(Part part);

enum class Kept : std::uint8_t {
  kAttentionNormInput,
  kAttentionNormOutput,
  kNormFp32,
  kQueryLatent,
  kKeyValueLatent,
  kQuery,
  kKey,
  kValue,
  kSoftmaxStatistics,
  kSoftmaxOutput,
  kSoftmaxDropoutMask,
  kSoftmaxDropped,
  kAttentionOutput,
  kAttentionOutputCopy,
  kAttentionDropoutMask,
  kMlpNormInput,
  kMlpNormOutput,
  kMlpNormFp32,
  kMlpActivationInput,
  kMlpGateOutput,
  kMlpDownInput,
  kRouter,
  kExpertInput,
  kExpertActivationInput,
  kExpertGateOutput,
  kExpertDownInput,
  kExpertOutput,  // as it came back, of this project's runtime
  kSharedActivationInput,
  kSharedGateOutput,
  kSharedDownInput,
  kMlpDropoutMask,
  kTokenStreams,  // of an extra prediction module: the two streams, and them normalised and joined
};
inline constexpr int kKeptCount = static_cast<int>(Kept::kTokenStreams) + 1;

struct KeptTraits {
  Kept kept{};
  const char* name = nullptr;
  Half half{};
  std::uint16_t modules = 0;         // recompute modules that drop it
  std::uint16_t engine_modules = 0;  // and those of Transformer Engine besides
  bool is_stream = false;            // the residual stream itself
  bool feeds_product = false;  // input of a product with a weight: its weight gradient reads it
  bool narrow = false;         // Transformer Engine keeps it in 8 bits under fp8
  bool always_fp32 = false;
  bool decomposed_norm = false;  // there where norms run decomposed (DTensor)
  bool output_copy = false;      // there where attention's output is copied
};
const KeptTraits& traits_of(Kept kept);

}  // namespace trireme::models
