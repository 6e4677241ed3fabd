// Attention of context ranks that pass keys and values round a ring (Liu et al. 2023, "Ring
// Attention with Blockwise Transformers"): while a rank works on those that are there, the next
// ones come. Each rank has two chunks of a sequence, a near one and a far one, so that every step
// is the same work everywhere (core/program.h, context_position).
#include "planner/lower/layer.h"

namespace trireme::planner::lowering {

void LayerWriter::ring_attention(LayerState& state) {
  const Shape& s = w_.shape;
  const std::int64_t context = group_dim(w_.groups.context);
  const std::int64_t tokens = s.tokens / s.batch;
  const std::int64_t out = s.tokens * s.attention;
  const std::int64_t rows = s.tokens * s.heads;
  const Operand sum = w_.builder.buffer("attention_sum", out, ElementType::kMaster);
  state.statistics = w_.builder.buffer("attention_statistics", rows, ElementType::kMaster);
  Operand keys = own_keys(state);
  for (std::int64_t step = 0; step < w_.plan.context; ++step) {
    const Operand here = keys;
    if (step + 1 < w_.plan.context) {
      keys = w_.builder.buffer("ring_keys", here.count, ElementType::kCompute);
      w_.builder.shift("ring_keys", w_.groups.context, here, keys, Stream::kContext);
    }
    const Operand part = w_.builder.buffer("attention_part", out, ElementType::kCompute);
    const Operand statistics = w_.builder.buffer("part_statistics", rows, ElementType::kMaster);
    w_.builder.compute("attention", Kernel::kRingAttentionForward,
                       {s.batch, tokens, s.heads, s.kv_heads, s.head_dim, s.v_dim, context, step},
                       {state.qkv, here, part, statistics});
    w_.builder.compute("merge_attention", Kernel::kRingMerge,
                       {s.batch, tokens, s.heads, s.v_dim, context, step, step > 0 ? 1 : 0},
                       {part, statistics, sum, state.statistics});
  }
  state.attention = w_.builder.buffer("attention", out, ElementType::kCompute);
  w_.builder.compute("attention_cast", Kernel::kCast, {out}, {sum, state.attention});
}

// Gradients of keys and values follow them, a step behind: what the members before found comes
// while this one works on the same keys. After the last step they are one member short of home.
void LayerWriter::ring_attention_gradient(LayerState& state, const Operand& d_attention) {
  const Shape& s = w_.shape;
  const auto shift = [&](const char* name, const Operand& from) {
    const Operand to = w_.builder.buffer(name, from.count, ElementType::kCompute);
    w_.builder.shift(name, w_.groups.context, from, to, Stream::kContext);
    return to;
  };
  const std::int64_t tokens = s.tokens / s.batch;
  state.d_qkv = w_.builder.buffer("d_qkv", s.tokens * s.qkv, ElementType::kCompute);
  w_.builder.compute("d_qkv", Kernel::kZero, {state.d_qkv.count}, {state.d_qkv});
  Operand keys = own_keys(state);
  Operand d_keys;
  for (std::int64_t step = 0; step < w_.plan.context; ++step) {
    const Operand here = keys;
    if (step + 1 < w_.plan.context) {
      keys = shift("ring_keys", here);
    }
    const Operand before = step > 0 ? shift("ring_d_keys", d_keys) : Operand{};
    d_keys = w_.builder.buffer("d_keys", here.count, ElementType::kCompute);
    w_.builder.compute(
        "attention_gradient", Kernel::kRingAttentionBackward,
        {s.batch, tokens, s.heads, s.kv_heads, s.head_dim, s.v_dim, group_dim(w_.groups.context),
         step},
        {d_attention, state.qkv, here, state.attention, state.statistics, state.d_qkv, d_keys});
    if (present(before)) {
      w_.builder.compute("add_d_keys", Kernel::kAdd, {d_keys.count}, {d_keys, before});
    }
  }
  w_.builder.compute("d_keys", Kernel::kKeysIn,
                     {s.tokens, s.heads, s.kv_heads, s.head_dim, s.v_dim},
                     {shift("ring_d_keys", d_keys), state.d_qkv});
}

}  // namespace trireme::planner::lowering
