#include "planner/lower/modelled_layer.h"

#include <algorithm>

#include "planner/cost/expert_time.h"
#include "planner/cost/layer_memory.h"
#include "planner/cost/narrow_casts.h"
#include "planner/cost/written_passes.h"

namespace trireme::planner::lowering {

ModelledLayer::ModelledLayer(Writer& writer, std::int64_t layer, bool recompute)
    : w_(writer),
      slots_(writer.stage.layers[static_cast<std::size_t>(layer)]),
      layer_(layer),
      recompute_(recompute),
      sparse_(models::is_moe_layer(writer.job.model, layer)),
      shard_(shard_of(writer.job, writer.plan, writer.job.sequence)),
      work_(models::layer_work(writer.job.model, layer, shard_, kernels_of(writer.job))) {
  write_out_passes(writer.job.framework, work_);
  add_narrow_casts(writer.job, writer.plan, layer, work_);
  w_.builder.origin.layer = static_cast<std::int32_t>(layer);
}

bool ModelledLayer::is_own() const {
  return w_.job.framework.implementation == models::Implementation::kTrireme;
}

const Slot& ModelledLayer::slot(bool routed) const {
  return routed && slots_.experts.count > 0 ? slots_.experts : slots_.modelled;
}

// The half's part of all that the layer keeps.
double ModelledLayer::share_of(Half half) const {
  double all = 0;
  double here = 0;
  for (const models::KeptItem& item :
       models::kept_activations(w_.job.model, layer_, shard_, w_.job.framework.implementation,
                                w_.job.framework.dropout)) {
    const auto bytes = static_cast<double>(item.bytes.value);
    all += bytes;
    here += models::traits_of(item.kept).half == half ? bytes : 0;
  }
  return all > 0 ? here / all : 0.5;
}

// What the layer keeps, all of it where it is repeated.
double ModelledLayer::kept_bytes() const {
  const LayerMemory& memory = w_.held.layer(sparse_);
  const bool selective = w_.plan.recompute == Recompute::kSelective;
  const double module = layer_ >= w_.job.model.layers ? w_.held.prediction_kept() : 0;
  return (selective ? memory.kept : memory.whole) + module;
}

std::int64_t ModelledLayer::kept_elements(Half half) const {
  return compute_elements(share_of(half) * kept_bytes());
}

// Inputs and output gradients of the half's products, from the one half of a split backward to the
// other.
std::int64_t ModelledLayer::postponed_elements(Half half) const {
  return compute_elements(share_of(half) * w_.held.layer(sparse_).weight_gradient);
}

// What is alive at the worst op of the layer's backward, beyond what it kept and what this backward
// has in buffers of their own (the gradients that come in and go out, gathered inputs, and
// `exchanged` elements of routed tokens).
std::int64_t ModelledLayer::working_elements(bool routed, std::int64_t exchanged) const {
  const LayerMemory& memory = w_.held.layer(sparse_);
  const bool selective = w_.plan.recompute == Recompute::kSelective;
  const double repeated = selective ? memory.whole - memory.kept : 0;
  const auto local = static_cast<double>(w_.shape.local_tokens * w_.shape.hidden);
  const auto whole = static_cast<double>(w_.shape.tokens * w_.shape.hidden);
  const bool sequence = w_.shape.sequence_parallel && !routed;
  const bool again = sequence && w_.job.framework.regather_in_backward;
  const double named =  // elements
      static_cast<double>(exchanged) + local + (routed ? local : whole) + (sequence ? local : 0) +
      (again ? whole : 0);
  return compute_elements(repeated + memory.transient - 2 * named);
}

void ModelledLayer::products(const models::PassWork& work, Half half, bool routed, Which which,
                             const Operand& input, const Operand& output) {
  for (const models::Matmul& product : work.matmuls) {
    const models::PartTraits& traits = models::traits_of(product.part);
    const bool wanted =
        which == Which::kAll || traits.column_parallel == (which == Which::kColumns);
    if (traits.half == half && traits.routed == routed && wanted) {
      write_product(w_, product, input, w_.units.weight(slot(routed)), output);
    }
  }
}

void ModelledLayer::pass(const models::PassWork& work, Half half, const Operand& input,
                         const Operand& output) {
  write_passes(w_, half == Half::kAttention ? "attention_passes" : "mlp_passes", work, half, input,
               output);
}

// To the experts' ranks and back: every token goes to experts_per_token of them; where experts are
// cut over ranks, those share their tokens.
Operand ModelledLayer::exchange_tokens(const char* name, const Operand& tokens, bool to_experts) {
  const std::int64_t sent =
      w_.shape.tokens / w_.plan.tensor * w_.shape.hidden * w_.job.model.moe->experts_per_token;
  const std::int64_t whole =
      std::max<std::int64_t>(w_.plan.expert, sent / w_.plan.expert * w_.plan.expert);
  Operand routed = tokens;
  const auto share = [&](bool gathers) {
    const std::int64_t ranks = w_.plan.expert_tensor > 0 ? w_.plan.expert_tensor : w_.plan.tensor;
    if (w_.groups.expert_tensor == kNoGroup) {
      return;
    }
    const Operand one = w_.builder.buffer("routed_share", whole, ElementType::kCompute);
    const Operand all = w_.builder.buffer("routed_all", whole * ranks, ElementType::kCompute);
    w_.builder.modelled_pass("permute", 0, Bytes(0), {routed, gathers ? one : all});
    if (gathers) {
      w_.builder.all_gather(name, w_.groups.expert_tensor, one, all, Stream::kExpert);
    } else {
      w_.builder.reduce_scatter(name, w_.groups.expert_tensor, all, one, Stream::kExpert);
    }
    routed = gathers ? all : one;
  };
  if (!to_experts) {
    share(false);
  }
  if (w_.groups.expert != kNoGroup) {
    const double copies = exchanged_copies(w_.job, w_.plan, to_experts);
    const double each = copies * static_cast<double>(sent) /
                        static_cast<double>(w_.job.model.moe->experts_per_token * w_.plan.expert);
    const std::int64_t moved =
        w_.plan.expert * std::max<std::int64_t>(1, static_cast<std::int64_t>(each));
    const Operand out = w_.builder.buffer("routed_tokens", moved, ElementType::kCompute);
    const Operand in = w_.builder.buffer("permuted_tokens", moved, ElementType::kCompute);
    w_.builder.modelled_pass("permute", 0, Bytes(0), {routed, in});
    w_.builder.all_to_all(name, w_.groups.expert, in, out, Stream::kExpert);
    routed = out;
  }
  if (to_experts) {
    share(true);
  }
  return routed;
}

void ModelledLayer::attention_half(const models::PassWork& work, ModelledState& state) {
  const Operand normed = w_.builder.buffer(
      "attention_norm", w_.shape.local_tokens * w_.shape.hidden, ElementType::kCompute);
  pass(work, Half::kAttention, state.x, normed);
  const Operand input = gather_tokens(w_, "attention_input", normed);
  state.attention =
      w_.builder.buffer("attention_kept", kept_elements(Half::kAttention), ElementType::kCompute);
  products(work, Half::kAttention, false, Which::kAll, input, state.attention);
  core_attention(work, false, state.attention, state.attention);
}

// Returns what the half adds to the stream: kept tensors, or the experts' results back on their
// tokens' ranks.
Operand ModelledLayer::mlp_half(const models::PassWork& work, ModelledState& state) {
  const Operand normed =
      w_.builder.buffer("mlp_norm", w_.shape.local_tokens * w_.shape.hidden, ElementType::kCompute);
  pass(work, Half::kMlp, state.middle, normed);
  state.mlp = w_.builder.buffer("mlp_kept", kept_elements(Half::kMlp), ElementType::kCompute);
  const Operand input = sparse_ ? normed : gather_tokens(w_, "mlp_input", normed);
  products(work, Half::kMlp, false, Which::kAll, input, state.mlp);
  if (sparse_) {
    const Operand routed = exchange_tokens("dispatch", normed, true);
    products(work, Half::kMlp, true, Which::kAll, routed, state.mlp);
    return exchange_tokens("combine", state.mlp, false);
  }
  return state.mlp;
}

// The half's contribution to the residual stream, summed over tensor ranks where it is split over
// them.
Operand ModelledLayer::finish_half(Half half, const Operand& kept, const Operand& stream) {
  const bool routed = sparse_ && half == Half::kMlp;
  const std::int64_t tokens = routed ? w_.shape.local_tokens : w_.shape.tokens;
  const Operand partial = w_.builder.buffer(half == Half::kMlp ? "mlp_output" : "attention_output",
                                            tokens * w_.shape.hidden, ElementType::kCompute);
  w_.builder.modelled_pass("residual", 0, Bytes(0), {kept, partial});
  const Operand out =
      routed ? partial
             : reduce_tokens(w_, half == Half::kMlp ? "mlp_reduce" : "attention_reduce", partial);
  w_.builder.modelled_pass("residual", 0, Bytes(0), {stream, out});
  return out;
}

Operand ModelledLayer::forward(const Operand& x, ModelledState& state) {
  state.x = x;
  attention_half(work_.forward, state);
  state.middle = finish_half(Half::kAttention, state.attention, x);
  const Operand added = mlp_half(work_.forward, state);
  const Operand out = finish_half(Half::kMlp, added, state.middle);
  if (recompute_) {
    state = {};
    state.x = x;
  }
  return out;
}

// Autograd repeats a forward when the gradient is there; this project's runtime before.
void ModelledLayer::recompute(ModelledState& state, const Operand& dy) {
  if (!recompute_ && w_.plan.recompute == Recompute::kFull) {
    return;  // the plan repeats other layers whole, and nothing of this one
  }
  w_.builder.origin.phase = Phase::kRecompute;
  if (!is_own()) {
    const Operand start = w_.builder.buffer("recompute_start", 1, ElementType::kCompute);
    w_.builder.modelled_pass("recompute_start", 0, Bytes(0), {dy, start});
  }
  if (recompute_) {
    const models::PassWork again =
        models::repeated_work(work_.forward, {models::kWholeLayer, is_own()});
    attention_half(again, state);
    state.middle = finish_half(Half::kAttention, state.attention, state.x);
    const Operand added = mlp_half(again, state);
    // This project's runtime has no use for a repeated layer's output.
    if (!is_own()) {
      finish_half(Half::kMlp, added, state.middle);
    }
  } else if (w_.plan.recompute == Recompute::kSelective) {
    repeat_modules(state);
  }
  w_.builder.origin.phase = Phase::kBackward;
}

void ModelledLayer::repeat_modules(ModelledState& state) {
  const models::PassWork again =
      models::repeated_work(work_.forward, {w_.plan.recompute_modules, is_own()});
  for (const Half half : {Half::kAttention, Half::kMlp}) {
    const Operand& kept = half == Half::kMlp ? state.mlp : state.attention;
    pass(again, half, kept, kept);
    products(again, half, false, Which::kAll, kept, kept);
  }
  for (const models::AttentionWork& a : again.attention) {
    attention_piece(a, models::keys_seen(a), false, state.attention, state.attention);
  }
  if (sparse_ && (w_.plan.recompute_modules & kMoe) != 0) {
    const Operand routed = exchange_tokens("dispatch", state.middle, true);
    products(again, Half::kMlp, true, Which::kAll, routed, state.mlp);
    exchange_tokens("combine", state.mlp, false);
  } else if (sparse_ && (w_.plan.recompute_modules & models::kTorchPerOp) != 0) {
    products(again, Half::kMlp, true, Which::kAll, state.mlp, state.mlp);  // of what was exchanged
  }
}

void ModelledLayer::weight_products(Half half, Which which, const Operand& d_output,
                                    const Operand& kept) {
  const Phase before = w_.builder.origin.phase;
  w_.builder.origin.phase = Phase::kWeightGradient;
  for (const models::Matmul& product : work_.weight_gradient.matmuls) {
    const models::PartTraits& traits = models::traits_of(product.part);
    const bool wanted = traits.routed ? which == Which::kRouted
                                      : which != Which::kRouted &&
                                            traits.column_parallel == (which == Which::kColumns);
    if (traits.half == half && wanted) {
      const GradientTarget target = w_.units.gradient(slot(traits.routed));
      write_product(w_, product, d_output, kept, target.operand);
    }
  }
  w_.builder.origin.phase = before;
}

// Sequence parallelism: the inputs of the column-parallel products, gathered a second time.
Operand ModelledLayer::gather_again(Half half, const Operand& kept) {
  if (!w_.shape.sequence_parallel || !w_.job.framework.regather_in_backward ||
      (sparse_ && half == Half::kMlp)) {
    return kept;
  }
  const Operand own = w_.builder.buffer("norm_output", w_.shape.local_tokens * w_.shape.hidden,
                                        ElementType::kCompute);
  w_.builder.modelled_pass("norm_output", 0, Bytes(0), {kept, own});
  return gather_tokens(w_, half == Half::kMlp ? "mlp_input" : "attention_input", own);
}

// Order of issue: what the row-parallel product leaves, then the second gather of the column-
// parallel products' inputs beside their input gradient, whose sum hides behind their weight
// gradient. Gradients of routed tokens travel back when all that stands beside them is done: only
// another micro-batch covers that (planner/walk/expert_overlap.h).
Operand ModelledLayer::backward_half(Half half, const Operand& dy, const ModelledState& state,
                                     Operand& d_kept, bool split) {
  const bool mlp = half == Half::kMlp;
  const Operand& kept = mlp ? state.mlp : state.attention;
  const bool routed = sparse_ && mlp;
  const std::int64_t tokens = routed ? w_.shape.local_tokens : w_.shape.tokens;
  const Operand all =
      routed ? dy : gather_tokens(w_, mlp ? "d_mlp_output" : "d_attention_output", dy);
  const Operand arrived = routed ? exchange_tokens("combine_gradient", dy, true) : dy;
  const std::int64_t exchanged = arrived.buffer != dy.buffer ? arrived.count : 0;
  const Operand working = w_.builder.buffer(
      mlp ? "d_mlp" : "d_attention", working_elements(routed, exchanged), ElementType::kCompute);
  Operand returned = working;
  if (routed) {
    products(work_.input_gradient, half, true, Which::kAll, arrived, working);
    if (!split) {
      weight_products(half, Which::kRouted, arrived, kept);
    }
  }
  products(work_.input_gradient, half, false, Which::kOthers, all, working);
  if (!split) {
    weight_products(half, Which::kOthers, all, kept);
  }
  if (!mlp) {
    core_attention(work_.input_gradient, true, kept, working);
  }
  pass(work_.input_gradient, half, all, working);
  if (routed) {
    returned = exchange_tokens("dispatch_gradient", working, false);
  }
  const Operand again = split || routed ? kept : gather_again(half, kept);
  settle_tensor(w_);
  products(work_.input_gradient, half, false, Which::kColumns, working, working);
  const Operand partial = w_.builder.buffer(mlp ? "d_mlp_input" : "d_attention_input",
                                            tokens * w_.shape.hidden, ElementType::kCompute);
  if (split) {  // what was kept is over, or part of what is postponed
    w_.builder.modelled_pass("gradient", 0, Bytes(0), {working, returned, kept, partial});
  } else {
    w_.builder.modelled_pass("gradient", 0, Bytes(0), {working, returned, partial});
  }
  const Operand reduced =
      routed ? partial : reduce_tokens(w_, mlp ? "d_mlp_reduce" : "d_attention_reduce", partial);
  settle_tensor(w_);
  if (!split) {
    weight_products(half, Which::kColumns, working, again);
  }
  if (recompute_) {  // the input, which was kept, goes with the layer
    w_.builder.modelled_pass("residual_gradient", 0, Bytes(0), {dy, state.x, reduced});
  } else {
    w_.builder.modelled_pass("residual_gradient", 0, Bytes(0), {dy, reduced});
  }
  if (split) {  // what the weight gradients read, in the place of what was kept
    d_kept = w_.builder.buffer(mlp ? "mlp_postponed" : "attention_postponed",
                               postponed_elements(half), ElementType::kCompute);
    w_.builder.modelled_pass("postponed", 0, Bytes(0), {reduced, d_kept});
  }
  return reduced;
}

Operand ModelledLayer::backward(const Operand& dy, ModelledState& state, bool split) {
  const Operand middle = backward_half(Half::kMlp, dy, state, state.d_mlp, split);
  const Operand dx = backward_half(Half::kAttention, middle, state, state.d_attention, split);
  const Operand d_mlp = state.d_mlp;
  const Operand d_attention = state.d_attention;
  state = {};
  state.d_mlp = d_mlp;
  state.d_attention = d_attention;
  return dx;
}

// The inputs are gathered beside the row-parallel products' weight gradients.
void ModelledLayer::weight_gradients(ModelledState& state) {
  for (const Half half : {Half::kMlp, Half::kAttention}) {
    const Operand& postponed = half == Half::kMlp ? state.d_mlp : state.d_attention;
    const Operand again = gather_again(half, postponed);
    weight_products(half, Which::kRouted, postponed, postponed);
    weight_products(half, Which::kOthers, postponed, postponed);
    weight_products(half, Which::kColumns, postponed, again);
  }
  state = {};
}

}  // namespace trireme::planner::lowering
