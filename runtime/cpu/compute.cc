#include "runtime/cpu/compute.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "runtime/cpu/attention.h"
#include "runtime/cpu/call.h"
#include "runtime/cpu/elementwise.h"
#include "runtime/cpu/loss.h"
#include "runtime/cpu/matmul.h"
#include "runtime/cpu/norm.h"
#include "runtime/cpu/optimizer.h"
#include "runtime/cpu/run_context.h"
#include "runtime/cpu/run_experts.h"
#include "runtime/cpu/run_narrow.h"

namespace trireme::runtime::cpu {
namespace {

template <typename T>
EmbeddingShape embedding_shape(const Call<T>& c) {
  return {.rows = c.dim("T"),
          .width = c.dim("H"),
          .first_row = c.place() * c.dim("R"),
          .table_rows = c.dim("R"),
          .multiplier = c.arithmetic().embedding_multiplier};
}

template <typename T>
PositionShape position_shape(const Call<T>& c) {
  return {.rows = c.dim("T"),
          .width = c.dim("H"),
          .length = c.dim("S"),
          .first_row = c.place() * c.dim("T"),
          .context_ranks = c.ranks("context"),
          .context_place = c.place("context")};
}

template <typename T>
void run_matmul(const Call<T>& c) {
  matmul<T>({.m = c.dim("m"),
             .n = c.dim("n"),
             .k = c.dim("k"),
             .transpose_a = c.dim("transpose_a") != 0,
             .transpose_b = c.dim("transpose_b") != 0},
            c.at(0), c.at(1), c.at(2), c.dim("accumulate") != 0);
}

template <typename T>
NormShape norm_shape(const Call<T>& c, bool centred) {
  return {.rows = c.dim("T"),
          .width = c.dim("H"),
          .centred = centred,
          .epsilon = c.arithmetic().norm_epsilon,
          .weight_offset = c.arithmetic().norm_plus_one ? 1.0 : 0.0};
}

template <typename T>
void run_norm_backward(const Call<T>& c, bool centred) {
  const std::size_t residual = centred ? 5 : 4;
  T* dx = c.at(residual + 1);
  const std::int64_t count = c.dim("T") * c.dim("H");
  std::vector<T> kept;  // residual and dx may be the same memory
  if (c.dim("add_residual") != 0) {
    kept.assign(c.at(residual), c.at(residual) + count);
  }
  norm_backward<T>(norm_shape(c, centred), c.at(1), c.at(2), c.at(0), dx,
                   c.accumulated(residual + 2), centred ? c.accumulated(residual + 3) : nullptr);
  if (!kept.empty()) {
    add<T>(count, dx, kept.data(), dx);
  }
}

template <typename T>
HeadNormShape head_norm_shape(const Call<T>& c) {
  return {.rows = c.dim("T"),
          .query_heads = c.dim("A"),
          .kv_heads = c.dim("K"),
          .head_dim = c.dim("D"),
          .epsilon = c.arithmetic().norm_epsilon,
          .weight_offset = c.arithmetic().norm_plus_one ? 1.0 : 0.0};
}

template <typename T>
RotaryShape positions_of(const Call<T>& c) {
  return {.rows = c.dim("T"),
          .length = c.dim("S"),
          .context_ranks = c.ranks("context"),
          .context_place = c.place("context")};
}

// Null: nothing is turned.
template <typename T>
const RotaryTable* table_of(const Call<T>& c) {
  const std::int64_t table = c.dim("table");
  const std::vector<RotaryTable>& tables = c.arithmetic().rotary;
  TRIREME_CHECK(table < static_cast<std::int64_t>(tables.size()));
  return table < 0 ? nullptr : &tables[static_cast<std::size_t>(table)];
}

template <typename T>
void run_rotary(const Call<T>& c, bool backward) {
  const std::int64_t heads = c.dim("A") + c.dim("K");
  RotaryShape shape = positions_of(c);
  shape.heads = heads;
  shape.head_dim = shape.head_stride = c.dim("D");
  shape.stride = (heads + c.dim("K")) * c.dim("D");
  const RotaryTable* table = table_of(c);
  TRIREME_CHECK(table != nullptr);
  rotary<T>(shape, *table, c.at(0), backward);
}

template <typename T>
void run_latent_heads(const Call<T>& c, bool backward) {
  const LatentShape shape{c.dim("A"), c.dim("N"), c.dim("R"), c.dim("V")};
  if (backward) {
    latent_heads_backward<T>(shape, positions_of(c), table_of(c), c.at(0), c.at(1), c.at(2),
                             c.at(3));
  } else {
    latent_heads_forward<T>(shape, positions_of(c), table_of(c), c.at(0), c.at(1), c.at(2),
                            c.at(3));
  }
}

template <typename T>
AttentionShape attention_shape(const Call<T>& c) {
  return {.batch = c.dim("B"),
          .heads = c.dim("A"),
          .kv_heads = c.dim("K"),
          .query_length = c.dim("S"),
          .key_length = c.dim("S"),
          .query_offset = 0,
          .qk_dim = c.dim("D"),
          .v_dim = c.dim("V"),
          .window = c.dim("window"),
          .causal = true,
          .scale = c.attention_scale(c.dim("D")),
          .cap = c.arithmetic().attention_cap};
}

template <typename T>
void run_attention_forward(const Call<T>& c) {
  const AttentionShape s = attention_shape(c);
  const std::int64_t stride = (s.heads + s.kv_heads) * s.qk_dim + s.kv_heads * s.v_dim;
  const T* q = c.at(0);
  const T* k = q + s.heads * s.qk_dim;
  const T* v = k + s.kv_heads * s.qk_dim;
  attention_forward<T>(s, {q, stride}, {k, stride}, {v, stride}, {c.at(1), s.heads * s.v_dim},
                       c.at(2));
}

template <typename T>
void run_attention_backward(const Call<T>& c) {
  const AttentionShape s = attention_shape(c);
  const std::int64_t stride = (s.heads + s.kv_heads) * s.qk_dim + s.kv_heads * s.v_dim;
  const std::int64_t k_at = s.heads * s.qk_dim;
  const std::int64_t v_at = k_at + s.kv_heads * s.qk_dim;
  const T* qkv = c.at(1);
  T* dqkv = c.at(4);
  attention_backward<T>(s, {qkv, stride}, {qkv + k_at, stride}, {qkv + v_at, stride},
                        {c.at(2), s.heads * s.v_dim}, c.at(3), {c.at(0), s.heads * s.v_dim},
                        {dqkv, stride}, {dqkv + k_at, stride}, {dqkv + v_at, stride});
}

template <typename T>
LogitShape logit_shape(const Call<T>& c) {
  return {.rows = c.dim("T"),
          .width = c.dim("R"),
          .first = c.place() * c.dim("R"),
          .vocabulary = c.dim("V"),
          .multiplier = c.arithmetic().logit_multiplier,
          .cap = c.arithmetic().logit_cap};
}

template <typename T>
void run_loss(const Call<T>& c, Kernel kernel) {
  const std::int64_t rows = c.dim("T");
  if (kernel == Kernel::kLogitStatistics) {
    logit_statistics<T>(logit_shape(c), c.at(0), c.tokens(1), c.at(2), c.at(3), c.at(3) + rows);
  } else if (kernel == Kernel::kStatisticsRescale) {
    statistics_rescale<T>(rows, c.at(0), c.at(1), c.at(2));
  } else if (kernel == Kernel::kCrossEntropyLoss) {
    *c.at(2) +=
        loss_sum<T>(rows, c.at(0), c.at(1), c.at(1) + rows) / static_cast<T>(c.dim("denominator"));
  } else {
    loss_gradient<T>(logit_shape(c), c.at(0), c.tokens(3), c.at(1), c.at(2),
                     T(1) / static_cast<T>(c.dim("denominator")));
  }
}

template <typename T>
void run_squared_norm(const Call<T>& c) {
  const std::int64_t count = c.dim("N");
  // Elements before the cut are divided by one number, those after it by another.
  const std::int64_t cut =
      std::clamp<std::int64_t>(c.dim("replicated_from") - c.place() * count, 0, count);
  *c.at(1) +=
      square_sum<T>(cut, c.at(0)) / static_cast<T>(c.dim("divisor")) +
      square_sum<T>(count - cut, c.at(0) + cut) / static_cast<T>(c.dim("replicated_divisor"));
}

template <typename T>
void run_clip_factor(const Call<T>& c) {
  const T norm = std::sqrt(*c.at(0));
  const auto limit = static_cast<T>(c.settings().max_norm);
  *c.at(1) = norm;
  *c.at(2) = limit > T(0) ? std::min(T(1), limit / (norm + static_cast<T>(1e-6))) : T(1);
}

template <typename T>
void run_adamw(const Call<T>& c, bool cast) {
  const StepSettings& s = c.settings();
  const std::int64_t count = c.dim("N");
  adam_update<T>({.learning_rate = s.learning_rate,
                  .beta1 = s.beta1,
                  .beta2 = s.beta2,
                  .epsilon = s.epsilon,
                  .weight_decay = s.weight_decay,
                  .step = s.step,
                  .gradient_scale = static_cast<double>(*c.at(1))},
                 count, c.at(0), c.at(2), c.at(3), c.at(4));
  if (cast) {
    std::copy_n(c.at(2), count, c.at(5));
  }
}

template <typename T>
void run_layer_kernel(const Call<T>& c, Kernel kernel) {
  const bool centred = kernel == Kernel::kLayerNormForward || kernel == Kernel::kLayerNormBackward;
  if (kernel == Kernel::kLayerNormForward) {
    norm_forward<T>(norm_shape(c, true), c.at(0), c.at(1), c.at(2), c.at(3), c.at(4), c.at(5));
  } else if (kernel == Kernel::kRmsNormForward) {
    norm_forward<T>(norm_shape(c, false), c.at(0), c.at(1), nullptr, c.at(2), nullptr, c.at(3));
  } else if (kernel == Kernel::kHeadNormForward) {
    head_norm_forward<T>(head_norm_shape(c), c.at(0), c.at(1), c.at(2), c.at(3), c.at(4));
  } else if (kernel == Kernel::kHeadNormBackward) {
    head_norm_backward<T>(head_norm_shape(c), c.at(0), c.at(1), c.at(2), c.at(3), c.at(5),
                          c.accumulated(6), c.accumulated(7));
  } else {
    run_norm_backward(c, centred);
  }
}

template <typename T>
// NOLINTNEXTLINE(readability-function-size): a table
void dispatch(const Call<T>& c, Kernel kernel) {
  const Activation act = c.arithmetic().activation;
  switch (kernel) {
    case Kernel::kEmbeddingForward:
      return embedding_forward<T>(embedding_shape(c), c.tokens(0), c.at(1), c.at(2));
    case Kernel::kEmbeddingBackward:
      return embedding_backward<T>(embedding_shape(c), c.tokens(0), c.at(1), c.accumulated(2));
    case Kernel::kPositionForward:
      return position_forward<T>(position_shape(c), c.at(1), c.at(0));
    case Kernel::kPositionBackward:
      return position_backward<T>(position_shape(c), c.at(0), c.accumulated(1));
    case Kernel::kMatmul:
      return run_matmul(c);
    case Kernel::kBiasForward:
      return add_bias<T>(c.dim("T"), c.dim("N"), c.at(1), c.at(0));
    case Kernel::kBiasBackward:
      return add_column_sums<T>(c.dim("T"), c.dim("N"), c.at(0), c.accumulated(1));
    case Kernel::kLayerNormForward:
    case Kernel::kLayerNormBackward:
    case Kernel::kRmsNormForward:
    case Kernel::kRmsNormBackward:
    case Kernel::kHeadNormForward:
    case Kernel::kHeadNormBackward:
      return run_layer_kernel(c, kernel);
    case Kernel::kRotaryForward:
      return run_rotary(c, false);
    case Kernel::kRotaryBackward:
      return run_rotary(c, true);
    case Kernel::kLatentHeadsForward:
      return run_latent_heads(c, false);
    case Kernel::kLatentHeadsBackward:
      return run_latent_heads(c, true);
    case Kernel::kAttentionForward:
      return run_attention_forward(c);
    case Kernel::kAttentionBackward:
      return run_attention_backward(c);
    case Kernel::kKeysOut:
    case Kernel::kKeysIn:
    case Kernel::kRowsInOrder:
    case Kernel::kSpreadHeads:
    case Kernel::kContextAttentionForward:
    case Kernel::kContextAttentionBackward:
      return run_context(c, kernel);
    case Kernel::kRingAttentionForward:
    case Kernel::kRingMerge:
    case Kernel::kRingAttentionBackward:
      return run_ring(c, kernel);
    case Kernel::kRouteForward:
    case Kernel::kRouteBackward:
    case Kernel::kExpertPlaces:
    case Kernel::kPermuteRows:
    case Kernel::kCombineRows:
    case Kernel::kCombineBackward:
    case Kernel::kRegroupRows:
    case Kernel::kExpertMatmul:
      return run_experts(c, kernel);
    case Kernel::kNarrowScale:
    case Kernel::kNarrowCast:
    case Kernel::kNarrowTurned:
    case Kernel::kNarrowBoth:
    case Kernel::kNarrowMatmul:
    case Kernel::kExpertNarrowScale:
    case Kernel::kExpertNarrowCast:
    case Kernel::kExpertNarrowTurned:
    case Kernel::kExpertNarrowBoth:
    case Kernel::kExpertNarrowMatmul:
    case Kernel::kDelayedScales:
    case Kernel::kDelayedCast:
    case Kernel::kDelayedBoth:
    case Kernel::kExpertDelayedCast:
    case Kernel::kExpertDelayedBoth:
    case Kernel::kBlockCast:
    case Kernel::kBlockTurned:
    case Kernel::kBlockBoth:
    case Kernel::kBlockMatmul:
      return run_narrow(c, kernel);
    case Kernel::kSwigluForward:
      return swiglu_forward<T>(c.dim("T"), c.dim("F"), act, c.at(0), c.at(1));
    case Kernel::kSwigluBackward:
      return swiglu_backward<T>(c.dim("T"), c.dim("F"), act, c.at(1), c.at(0), c.at(2));
    case Kernel::kGeluForward:
      return gelu_forward<T>(c.dim("T") * c.dim("F"), act, c.at(0), c.at(1));
    case Kernel::kGeluBackward:
      return gelu_backward<T>(c.dim("T") * c.dim("F"), act, c.at(1), c.at(0), c.at(2));
    case Kernel::kAdd:
      return add<T>(c.dim("N"), c.at(0), c.at(1), c.at(0));
    case Kernel::kScale:
      return scale<T>(c.dim("N"), static_cast<T>(c.arithmetic().residual_multiplier), c.at(0),
                      c.at(1));
    case Kernel::kLogitStatistics:
    case Kernel::kStatisticsRescale:
    case Kernel::kCrossEntropyLoss:
    case Kernel::kCrossEntropyBackward:
      return run_loss(c, kernel);
    case Kernel::kCast:
      std::copy_n(c.at(0), c.dim("N"), c.at(1));
      return;
    case Kernel::kZero:
      std::fill_n(c.at(0), c.dim("N"), T(0));
      return;
    case Kernel::kSquaredNorm:
      return run_squared_norm(c);
    case Kernel::kClipFactor:
      return run_clip_factor(c);
    case Kernel::kAdamw:
      return run_adamw(c, false);
    case Kernel::kAdamwCast:
      return run_adamw(c, true);
    case Kernel::kModelledMatmul:
    case Kernel::kModelledAttention:
    case Kernel::kModelledPass:
      throw Error(std::string(signature_of(kernel).name),
                  "is work that can be timed but not executed; run says which part of the model");
  }
}

}  // namespace

template <typename T>
void round_to_bf16(std::span<T> values) {
  for (T& value : values) {
    auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    if (std::isfinite(value)) {
      bits += 0x7fffU + ((bits >> 16U) & 1U);
    }
    value = static_cast<T>(std::bit_cast<float>(bits & 0xffff0000U));
  }
}

template <typename T>
void run_kernel(const ComputeContext& context, const Work& work, std::span<const View> operands) {
  dispatch(Call<T>(context, work, operands), work.kernel);
  if (!context.round_to_bf16) {
    return;
  }
  const std::string_view access = signature_of(work.kernel).access;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (access[i] != 'r' && operands[i].type == ElementType::kCompute) {
      round_to_bf16(std::span<T>(static_cast<T*>(operands[i].data),
                                 static_cast<std::size_t>(operands[i].count)));
    }
  }
}

template void run_kernel<float>(const ComputeContext&, const Work&, std::span<const View>);
template void run_kernel<double>(const ComputeContext&, const Work&, std::span<const View>);
template void round_to_bf16<float>(std::span<float>);
template void round_to_bf16<double>(std::span<double>);

}  // namespace trireme::runtime::cpu
