// The attention of modelled layers: alone, or over ranks that share each sequence.
#include <algorithm>
#include <optional>

#include "planner/cost/torch_context.h"
#include "planner/lower/modelled_layer.h"

namespace trireme::planner::lowering {
namespace {

// Elements of a rank's keys and values.
std::int64_t moved_keys(const Framework& framework, const models::AttentionWork& a) {
  const std::int64_t heads = framework.context_repeats_heads ? a.heads : a.kv_heads;
  return std::max<std::int64_t>(1, a.batch * a.query_length * heads * (a.qk_dim + a.v_dim));
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
  const std::int64_t moved = moved_keys(w_.job.framework, a);
  const Operand own = w_.builder.buffer("own_keys", moved, ElementType::kCompute);
  const Operand all =
      w_.builder.buffer("ring_keys", moved * w_.plan.context, ElementType::kCompute);
  w_.builder.modelled_pass("own_keys", 0, Bytes(0), {kept, own});
  w_.builder.all_gather("ring_exchange", w_.groups.context, own, all, Stream::kContext);
  return all;
}

// The gradients travel as far as the keys did, PyTorch's in fp32.
Operand ModelledLayer::scatter_gradients(const models::AttentionWork& a, const Operand& kept) {
  const Framework& framework = w_.job.framework;
  const std::int64_t moved =
      moved_keys(framework, a) * (has_torch_context(framework) ? kTorchGradientWidth : 1);
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
// of the pieces that are there, all but one of `context`; or are gathered before it, by PyTorch
// beside the piece of a rank's own keys.
void ModelledLayer::ring_attention(const models::AttentionWork& a, bool backward,
                                   const Operand& kept, const Operand& output) {
  const bool torch = has_torch_context(w_.job.framework);
  const bool gathers = context_form(w_.job.framework) == ContextForm::kGather;
  const Operand all = gather_keys(a, kept);
  const std::int64_t keys = models::keys_seen(a);
  const std::int64_t piece = keys / w_.plan.context;
  const std::int64_t first = !gathers ? keys - piece : torch ? piece : keys;
  attention_piece(a, first, backward, gathers && !torch ? all : kept, output);
  const std::optional<Operand> sums =
      backward ? std::optional(scatter_gradients(a, kept)) : std::nullopt;
  if (first < keys) {
    attention_piece(a, keys - first, backward, all, output);
  }
  if (torch) {
    merge_steps(a, backward, all, output);
  }
  if (sums) {
    w_.builder.modelled_pass("own_key_gradients", 0, Bytes(0), {*sums, output});
  }
}

// What PyTorch does around the attention of each step, together.
void ModelledLayer::merge_steps(const models::AttentionWork& a, bool backward, const Operand& keys,
                                const Operand& output) {
  const TorchContext steps{static_cast<double>(w_.plan.context),
                           static_cast<double>(a.batch * a.query_length * a.heads * a.v_dim),
                           static_cast<double>(moved_keys(w_.job.framework, a))};
  const topologies::Pass pass = backward ? topologies::Pass::kBackward : topologies::Pass::kForward;
  w_.builder.modelled_pass("merge_steps", 0, torch_context_traffic(steps, pass), {keys, output});
}

}  // namespace trireme::planner::lowering
