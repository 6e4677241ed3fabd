#include "core/kernels.h"

#include <array>

#include "core/check.h"
#include "core/error.h"

namespace trireme {
namespace {

using Names = std::initializer_list<std::string_view>;

// Dims as the table in the header lists them.
struct Row {
  Kernel kernel;
  std::string_view name;
  std::string_view access;
  std::array<std::string_view, 8> dims;
  std::size_t dim_count;
};

constexpr Row row(Kernel kernel, std::string_view name, std::string_view access, Names dims) {
  Row result{kernel, name, access, {}, dims.size()};
  std::size_t i = 0;
  for (const std::string_view dim : dims) {
    result.dims[i++] = dim;
  }
  return result;
}

constexpr std::array<Row, kKernelCount> kRows = {
    row(Kernel::kEmbeddingForward, "embedding_forward", "rrw", {"T", "H", "R", "group"}),
    row(Kernel::kEmbeddingBackward, "embedding_backward", "rra",
        {"T", "H", "R", "group", "accumulate"}),
    row(Kernel::kPositionForward, "position_forward", "ur",
        {"T", "H", "S", "P", "group", "context"}),
    row(Kernel::kPositionBackward, "position_backward", "ra",
        {"T", "H", "S", "P", "group", "context", "accumulate"}),
    row(Kernel::kMatmul, "matmul", "rra",
        {"m", "n", "k", "transpose_a", "transpose_b", "accumulate"}),
    row(Kernel::kBiasForward, "bias_forward", "ur", {"T", "N"}),
    row(Kernel::kBiasBackward, "bias_backward", "ra", {"T", "N", "accumulate"}),
    row(Kernel::kLayerNormForward, "layer_norm_forward", "rrrwww", {"T", "H"}),
    row(Kernel::kLayerNormBackward, "layer_norm_backward", "rrrrrrwaa",
        {"T", "H", "accumulate", "add_residual"}),
    row(Kernel::kRmsNormForward, "rms_norm_forward", "rrww", {"T", "H"}),
    row(Kernel::kRmsNormBackward, "rms_norm_backward", "rrrrrwa",
        {"T", "H", "accumulate", "add_residual"}),
    row(Kernel::kHeadNormForward, "head_norm_forward", "rrrww", {"T", "A", "K", "D"}),
    row(Kernel::kHeadNormBackward, "head_norm_backward", "rrrrrwaa",
        {"T", "A", "K", "D", "accumulate"}),
    row(Kernel::kRotaryForward, "rotary_forward", "u",
        {"T", "A", "K", "D", "S", "table", "context"}),
    row(Kernel::kRotaryBackward, "rotary_backward", "u",
        {"T", "A", "K", "D", "S", "table", "context"}),
    row(Kernel::kLatentHeadsForward, "latent_heads_forward", "rrrw",
        {"T", "A", "N", "R", "V", "S", "table", "context"}),
    row(Kernel::kLatentHeadsBackward, "latent_heads_backward", "rwww",
        {"T", "A", "N", "R", "V", "S", "table", "context"}),
    row(Kernel::kAttentionForward, "attention_forward", "rww",
        {"B", "S", "A", "K", "D", "window", "V"}),
    row(Kernel::kAttentionBackward, "attention_backward", "rrrrw",
        {"B", "S", "A", "K", "D", "window", "V"}),
    row(Kernel::kKeysOut, "keys_out", "rw", {"T", "A", "K", "D", "V"}),
    row(Kernel::kKeysIn, "keys_in", "ru", {"T", "A", "K", "D", "V"}),
    row(Kernel::kRowsInOrder, "rows_in_order", "rw", {"B", "S", "W", "C", "inverse"}),
    row(Kernel::kSpreadHeads, "spread_heads", "rw", {"T", "A", "K", "D", "C", "inverse", "V"}),
    row(Kernel::kContextAttentionForward, "context_attention_forward", "rrww",
        {"B", "S", "A", "K", "D", "window", "context", "C"}),
    row(Kernel::kContextAttentionBackward, "context_attention_backward", "rrrrrww",
        {"B", "S", "A", "K", "D", "window", "context", "C"}),
    row(Kernel::kRingAttentionForward, "ring_attention_forward", "rrww",
        {"B", "S", "A", "K", "D", "V", "context", "step"}),
    row(Kernel::kRingMerge, "ring_merge", "rraa",
        {"B", "S", "A", "V", "context", "step", "accumulate"}),
    row(Kernel::kRingAttentionBackward, "ring_attention_backward", "rrrrruw",
        {"B", "S", "A", "K", "D", "V", "context", "step"}),
    row(Kernel::kSwigluForward, "swiglu_forward", "rw", {"T", "F"}),
    row(Kernel::kSwigluBackward, "swiglu_backward", "rrw", {"T", "F"}),
    row(Kernel::kGeluForward, "gelu_forward", "rw", {"T", "F"}),
    row(Kernel::kGeluBackward, "gelu_backward", "rrw", {"T", "F"}),
    row(Kernel::kAdd, "add", "ur", {"N"}),
    row(Kernel::kScale, "scale", "rw", {"N"}),
    row(Kernel::kLogitStatistics, "logit_statistics", "rrww", {"T", "R", "V", "group"}),
    row(Kernel::kStatisticsRescale, "statistics_rescale", "rru", {"T"}),
    row(Kernel::kCrossEntropyLoss, "cross_entropy_loss", "rru", {"T", "denominator"}),
    row(Kernel::kCrossEntropyBackward, "cross_entropy_backward", "urrr",
        {"T", "R", "V", "group", "denominator"}),
    row(Kernel::kCast, "cast", "rw", {"N"}),
    row(Kernel::kZero, "zero", "w", {"N"}),
    row(Kernel::kSquaredNorm, "squared_norm", "ru",
        {"N", "group", "replicated_from", "divisor", "replicated_divisor"}),
    row(Kernel::kClipFactor, "clip_factor", "rww", {}),
    row(Kernel::kAdamw, "adamw", "rruuu", {"N"}),
    row(Kernel::kAdamwCast, "adamw_cast", "rruuuw", {"N"}),
    row(Kernel::kRouteForward, "route_forward", "rrww", {"T", "E", "k", "sigmoid", "biased"}),
    row(Kernel::kRouteBackward, "route_backward", "rrrrw", {"T", "E", "k", "sigmoid"}),
    row(Kernel::kExpertPlaces, "expert_places", "rww", {"N", "E"}),
    row(Kernel::kPermuteRows, "permute_rows", "rrw", {"T", "k", "H"}),
    row(Kernel::kCombineRows, "combine_rows", "rrrw", {"T", "k", "H", "weighted"}),
    row(Kernel::kCombineBackward, "combine_backward", "rrrrww", {"T", "k", "H"}),
    row(Kernel::kRegroupRows, "regroup_rows", "rrw", {"M", "H", "P", "E", "inverse"}),
    row(Kernel::kExpertMatmul, "expert_matmul", "rrar",
        {"m", "n", "k", "transpose_a", "transpose_b", "accumulate", "P", "E"}),
    row(Kernel::kNarrowScale, "narrow_scale", "rw", {"N", "gradient"}),
    row(Kernel::kNarrowCast, "narrow_cast", "rrw", {"M", "K", "gradient"}),
    row(Kernel::kNarrowTurned, "narrow_turned", "rrw", {"M", "K", "gradient"}),
    row(Kernel::kNarrowBoth, "narrow_both", "rrww", {"M", "K", "gradient"}),
    row(Kernel::kNarrowMatmul, "narrow_matmul", "rrrra", {"m", "n", "k", "accumulate", "gradient"}),
    row(Kernel::kExpertNarrowScale, "expert_narrow_scale", "rrw", {"M", "K", "gradient", "P", "E"}),
    row(Kernel::kExpertNarrowCast, "expert_narrow_cast", "rrrw", {"M", "K", "gradient", "P", "E"}),
    row(Kernel::kExpertNarrowTurned, "expert_narrow_turned", "rrrw",
        {"M", "K", "gradient", "P", "E"}),
    row(Kernel::kExpertNarrowBoth, "expert_narrow_both", "rrrww", {"M", "K", "gradient", "P", "E"}),
    row(Kernel::kExpertNarrowMatmul, "expert_narrow_matmul", "rrrrar",
        {"m", "n", "k", "summed", "accumulate", "gradient", "P", "E"}),
    row(Kernel::kDelayedScales, "delayed_scales", "uw", {"T", "N", "G"}),
    row(Kernel::kDelayedCast, "delayed_cast", "rruw", {"M", "K", "gradient"}),
    row(Kernel::kDelayedBoth, "delayed_both", "rruww", {"M", "K", "gradient"}),
    row(Kernel::kExpertDelayedCast, "expert_delayed_cast", "rrruw",
        {"M", "K", "gradient", "P", "E"}),
    row(Kernel::kExpertDelayedBoth, "expert_delayed_both", "rrruww",
        {"M", "K", "gradient", "P", "E"}),
    row(Kernel::kBlockCast, "block_cast", "rww", {"M", "K", "square"}),
    row(Kernel::kBlockTurned, "block_turned", "rww", {"M", "K", "square"}),
    row(Kernel::kBlockBoth, "block_both", "rwwww", {"M", "K", "square"}),
    row(Kernel::kBlockMatmul, "block_matmul", "rrrra", {"m", "n", "k", "accumulate", "square"}),
    row(Kernel::kModelledMatmul, "modelled_matmul", "*", {"m", "n", "k", "count", "wide", "host"}),
    row(Kernel::kModelledAttention, "modelled_attention", "*",
        {"B", "heads", "kv_heads", "query_length", "key_length", "qk_dim", "v_dim", "backward"}),
    row(Kernel::kModelledPass, "modelled_pass", "*", {"kernels", "state", "host"}),
};

constexpr bool rows_are_in_enum_order() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<std::size_t>(kRows[i].kernel) != i) {
      return false;
    }
  }
  return true;
}
static_assert(rows_are_in_enum_order());

std::array<KernelSignature, kKernelCount> make_signatures() {
  std::array<KernelSignature, kKernelCount> result;
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    result[i] = {kRows[i].name, kRows[i].access, {kRows[i].dims.data(), kRows[i].dim_count}};
  }
  return result;
}

}  // namespace

const KernelSignature& signature_of(Kernel kernel) {
  static const std::array<KernelSignature, kKernelCount> signatures = make_signatures();
  return signatures[static_cast<std::size_t>(kernel)];
}

std::optional<Kernel> find_kernel(std::string_view name) {
  for (const Row& candidate : kRows) {
    if (candidate.name == name) {
      return candidate.kernel;
    }
  }
  return std::nullopt;
}

Kernel parse_kernel(std::string_view name) {
  if (const auto found = find_kernel(name)) {
    return *found;
  }
  throw Error(std::string(name), "no kernel of that name; core/kernels.h lists them");
}

int dim_index(Kernel kernel, std::string_view name) {
  const auto& dims = signature_of(kernel).dims;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == name) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

}  // namespace trireme
