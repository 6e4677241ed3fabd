// The attention of modelled layers: alone, or over ranks that share each sequence.
#include <algorithm>

#include "planner/lower/modelled_layer.h"

namespace trireme::planner::lowering {
namespace {

// Elements of a rank's keys and values.
std::int64_t moved_keys(const models::AttentionWork& a) {
  return std::max<std::int64_t>(1, a.batch * a.query_length * a.kv_heads * (a.qk_dim + a.v_dim));
}

}  // namespace

void ModelledLayer::attention_piece(const models::AttentionWork& a, std::int64_t keys,
                                    bool backward, const Operand& kept, const Operand& output) {
  w_.builder.compute("attention", Kernel::kModelledAttention,
                     {a.batch, a.heads, a.kv_heads, a.query_length, std::max<std::int64_t>(1, keys),
                      a.qk_dim, a.v_dim, backward ? 1 : 0},
                     {kept, kept, output});
}

void ModelledLayer::core_attention(const models::PassWork& work, bool backward, const Operand& kept,
                                   const Operand& output) {
  if (work.attention.empty() && w_.groups.context != kNoGroup) {
    share_scores(backward, kept, output);
  }
  for (const models::AttentionWork& a : work.attention) {
    if (w_.groups.context == kNoGroup) {
      attention_piece(a, models::keys_seen(a), backward, kept, output);
    } else if (context_form(w_.job.framework) == ContextForm::kExchangeHeads) {
      exchange_heads(a, kept);
      attention_piece(a, models::keys_seen(a), backward, kept, output);
    } else {
      ring_attention(a, backward, kept, output);
    }
  }
}

// Unfused attention stands among the layer's products: what its ranks exchange has no piece of it
// to run beside.
void ModelledLayer::share_scores(bool backward, const Operand& kept, const Operand& output) {
  const Shape& s = w_.shape;
  const models::AttentionWork a{.batch = s.batch,
                                .heads = s.heads,
                                .kv_heads = s.kv_heads,
                                .query_length = s.tokens / s.batch,
                                .key_length = s.sequence,
                                .qk_dim = s.head_dim,
                                .v_dim = s.v_dim};
  if (context_form(w_.job.framework) == ContextForm::kExchangeHeads) {
    exchange_heads(a, kept);
    return;
  }
  const Operand all = gather_keys(a, kept);
  w_.builder.modelled_pass("all_keys", 0, Bytes(0), {all, output});
  if (backward) {
    w_.builder.modelled_pass("own_key_gradients", 0, Bytes(0),
                             {scatter_gradients(a, kept), output});
  }
}

Operand ModelledLayer::gather_keys(const models::AttentionWork& a, const Operand& kept) {
  const std::int64_t moved = moved_keys(a);
  const Operand own = w_.builder.buffer("own_keys", moved, ElementType::kCompute);
  const Operand all =
      w_.builder.buffer("ring_keys", moved * w_.plan.context, ElementType::kCompute);
  w_.builder.modelled_pass("own_keys", 0, Bytes(0), {kept, own});
  w_.builder.all_gather("ring_exchange", w_.groups.context, own, all, Stream::kContext);
  return all;
}

// The gradients travel as far as the keys did.
Operand ModelledLayer::scatter_gradients(const models::AttentionWork& a, const Operand& kept) {
  const std::int64_t moved = moved_keys(a);
  const Operand sums = w_.builder.buffer("own_key_gradients", moved, ElementType::kCompute);
  const Operand gradients =
      w_.builder.buffer("key_gradients", moved * w_.plan.context, ElementType::kCompute);
  w_.builder.modelled_pass("key_gradients", 0, Bytes(0), {kept, gradients});
  w_.builder.reduce_scatter("ring_gradients", w_.groups.context, gradients, sums, Stream::kContext);
  return sums;
}

// Ulysses: queries, keys and values leave with a share of the tokens and come back with a share of
// the heads, the output the other way. Keys and values with fewer heads than ranks are copied
// first.
void ModelledLayer::exchange_heads(const models::AttentionWork& a, const Operand& kept) {
  const std::int64_t ranks = w_.plan.context;
  const std::int64_t shared = std::max(a.kv_heads, std::min(a.heads, ranks));
  const std::int64_t tokens = a.batch * a.query_length;
  for (const std::int64_t heads : {a.heads, shared, shared, a.heads}) {
    const std::int64_t elements =
        std::max<std::int64_t>(1, tokens * heads * w_.job.model.head_dim / ranks) * ranks;
    const Operand in = w_.builder.buffer("heads_here", elements, ElementType::kCompute);
    const Operand out = w_.builder.buffer("tokens_here", elements, ElementType::kCompute);
    w_.builder.modelled_pass("exchange_heads", 0, Bytes(0), {kept, in});
    w_.builder.all_to_all("exchange_heads", w_.groups.context, in, out, Stream::kContext);
    w_.builder.modelled_pass("exchange_heads", 0, Bytes(0), {out, kept});
  }
}

// Keys and values (backward: their gradients too) go round the context group beside the attention
// of the pieces that are there, all but one of `context`; or are gathered before it.
void ModelledLayer::ring_attention(const models::AttentionWork& a, bool backward,
                                   const Operand& kept, const Operand& output) {
  const Operand all = gather_keys(a, kept);
  const std::int64_t keys = models::keys_seen(a);
  const std::int64_t last = keys / w_.plan.context;
  const bool gathers = context_form(w_.job.framework) == ContextForm::kGather;
  const auto last_piece = [&] {
    if (!gathers) {
      attention_piece(a, last, backward, all, output);
    }
  };
  attention_piece(a, gathers ? keys : keys - last, backward, gathers ? all : kept, output);
  if (backward) {
    const Operand sums = scatter_gradients(a, kept);
    last_piece();
    w_.builder.modelled_pass("own_key_gradients", 0, Bytes(0), {sums, output});
    return;
  }
  last_piece();
}

}  // namespace trireme::planner::lowering
