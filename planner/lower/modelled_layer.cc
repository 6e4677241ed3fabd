#include "planner/lower/modelled_layer.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "planner/cost/layer_memory.h"

namespace trireme::planner::lowering {
namespace {

constexpr std::int64_t kElementBytes = 2;

bool starts_with(const char* text, const char* prefix) {
  return std::strncmp(text, prefix, std::strlen(prefix)) == 0;
}

// Products of the MLP half; all others are attention's.
bool in_mlp(const char* name) {
  return starts_with(name, "mlp") || starts_with(name, "experts") || starts_with(name, "shared") ||
         starts_with(name, "router");
}

bool of_experts(const char* name) {
  return starts_with(name, "experts");
}

}  // namespace

ModelledLayer::ModelledLayer(Writer& writer, std::int64_t layer, bool recompute)
    : w_(writer),
      slots_(writer.stage.layers[static_cast<std::size_t>(layer)]),
      layer_(layer),
      recompute_(recompute),
      sparse_(models::is_moe_layer(writer.job.model, layer)),
      shard_(shard_of(writer.job, writer.plan)),
      work_(
          models::layer_work(writer.job.model, layer, shard_,
                             {.implementation = writer.job.framework.implementation,
                              .dropout = writer.job.framework.dropout,
                              .fused_cross_entropy = writer.job.framework.cross_entropy_fusion})) {
  w_.builder.origin.layer = static_cast<std::int32_t>(layer);
}

const Slot& ModelledLayer::slot(bool experts) const {
  return experts && slots_.experts.count > 0 ? slots_.experts : slots_.modelled;
}

// Elements of what the half keeps, its input from the residual stream aside.
std::int64_t ModelledLayer::kept_elements(Half half) const {
  std::int64_t bytes = 0;
  bool mlp = false;
  for (const models::KeptItem& item :
       models::kept_activations(w_.job.model, layer_, shard_, w_.job.framework.implementation,
                                w_.job.framework.dropout)) {
    const std::string_view name = item.name;
    mlp = mlp || name == "norm2_input";
    const bool stream = name == "norm1_input" || name == "norm2_input";
    bytes += mlp == (half == Half::kMlp) && !stream ? item.bytes.value : 0;
  }
  return std::max<std::int64_t>(1, bytes / kElementBytes);
}

void ModelledLayer::products(const char* name, const models::PassWork& work, Half half,
                             bool experts, const Operand& input, const Operand& output) {
  for (const models::Matmul& product : work.matmuls) {
    const bool mine =
        in_mlp(product.name) == (half == Half::kMlp) && of_experts(product.name) == experts;
    if (mine) {
      w_.builder.compute(std::strcmp(name, "") == 0 ? product.name : name, Kernel::kModelledMatmul,
                         {product.m, product.n, product.k, product.count},
                         {input, w_.units.weight(slot(experts)), output});
    }
  }
}

// The half's share of the passes over memory as one op: half of them.
void ModelledLayer::pass(const char* name, const models::PassWork& work, Half half,
                         const Operand& input, const Operand& output) {
  std::int64_t bytes = 0;
  std::int64_t kernels = 0;
  for (const models::MemoryBoundWork& part : work.memory_bound) {
    bytes += part.traffic.value;
    kernels += part.kernels;
  }
  const bool first = half == Half::kAttention;
  kernels = first ? kernels / 2 : kernels - kernels / 2;
  w_.builder.modelled_pass(name, kernels, Bytes(bytes / 2), {input, output});
}

// Under context parallelism the keys and values go round the context group, each piece beside the
// attention of the one before.
void ModelledLayer::core_attention(const models::PassWork& work, bool backward, const Operand& kept,
                                   const Operand& output) {
  const std::int64_t pieces = w_.groups.context == kNoGroup ? 1 : w_.plan.context;
  for (const models::AttentionWork& a : work.attention) {
    const std::int64_t own = kept.count / std::max<std::int64_t>(1, 4 * pieces) * pieces;
    const std::int64_t window = a.window > 0 ? std::min(a.key_length, 2 * a.window) : a.key_length;
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      Operand keys = kept;
      if (piece > 0) {
        // One step of the ring moves keys and values (backward: their gradients too) of a 1/c of
        // the tokens.
        const std::int64_t width = 2 * a.kv_heads * (a.qk_dim + a.v_dim) / 2 * (backward ? 2 : 1);
        const std::int64_t moved =
            a.batch * a.query_length * width / std::max<std::int64_t>(1, pieces - 1);
        const std::int64_t part = std::max<std::int64_t>(1, moved);
        keys = w_.builder.buffer("ring_keys", part * pieces, ElementType::kCompute);
        const Operand mine{kept.buffer, kNoGroup, kept.offset,
                           std::min(part, std::max<std::int64_t>(1, own))};
        const Operand sized{keys.buffer, kNoGroup, 0, mine.count * pieces};
        w_.builder.all_gather("ring_exchange", w_.groups.context, mine, sized, Stream::kContext);
        keys = sized;
      }
      w_.builder.compute(
          "attention", Kernel::kModelledAttention,
          {a.batch, a.heads, a.kv_heads, a.query_length, std::max<std::int64_t>(1, window / pieces),
           a.qk_dim, a.v_dim, backward ? 1 : 0},
          {keys, kept, output});
    }
  }
}

// To the experts' ranks and back: every token goes to experts_per_token of them.
Operand ModelledLayer::exchange_tokens(const char* name, const Operand& tokens) {
  if (w_.groups.expert == kNoGroup) {
    return tokens;
  }
  const std::int64_t sent =
      w_.shape.tokens / w_.plan.tensor * w_.shape.hidden * w_.job.model.moe->experts_per_token;
  const std::int64_t whole =
      std::max<std::int64_t>(w_.plan.expert, sent / w_.plan.expert * w_.plan.expert);
  const Operand out = w_.builder.buffer("routed_tokens", whole, ElementType::kCompute);
  const Operand in = w_.builder.buffer("permuted_tokens", whole, ElementType::kCompute);
  w_.builder.modelled_pass("permute", 0, Bytes(0), {tokens, in});
  w_.builder.all_to_all(name, w_.groups.expert, in, out, Stream::kExpert);
  return out;
}

void ModelledLayer::attention_half(ModelledState& state) {
  const Operand normed = w_.builder.buffer(
      "attention_norm", w_.shape.local_tokens * w_.shape.hidden, ElementType::kCompute);
  pass("attention_passes", work_.forward, Half::kAttention, state.x, normed);
  const Operand input = gather_tokens(w_, "attention_input", normed);
  state.attention =
      w_.builder.buffer("attention_kept", kept_elements(Half::kAttention), ElementType::kCompute);
  products("", work_.forward, Half::kAttention, false, input, state.attention);
  core_attention(work_.forward, false, state.attention, state.attention);
}

// Returns what the half adds to the stream: kept tensors, or the experts' results back on their
// tokens' ranks.
Operand ModelledLayer::mlp_half(ModelledState& state) {
  const Operand normed =
      w_.builder.buffer("mlp_norm", w_.shape.local_tokens * w_.shape.hidden, ElementType::kCompute);
  pass("mlp_passes", work_.forward, Half::kMlp, state.middle, normed);
  state.mlp = w_.builder.buffer("mlp_kept", kept_elements(Half::kMlp), ElementType::kCompute);
  const Operand input = sparse_ ? normed : gather_tokens(w_, "mlp_input", normed);
  products("", work_.forward, Half::kMlp, false, input, state.mlp);
  if (sparse_) {
    const Operand routed = exchange_tokens("dispatch", normed);
    products("", work_.forward, Half::kMlp, true, routed, state.mlp);
    return exchange_tokens("combine", state.mlp);
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
  attention_half(state);
  state.middle = finish_half(Half::kAttention, state.attention, x);
  const Operand added = mlp_half(state);
  const Operand out = finish_half(Half::kMlp, added, state.middle);
  if (recompute_) {
    state = {};
    state.x = x;
  }
  return out;
}

void ModelledLayer::recompute(ModelledState& state) {
  w_.builder.origin.phase = Phase::kRecompute;
  if (recompute_) {
    attention_half(state);
    state.middle = finish_half(Half::kAttention, state.attention, state.x);
    const Operand added = mlp_half(state);
    // This project's runtime has no use for a repeated layer's output.
    if (w_.job.framework.implementation != models::Implementation::kTrireme) {
      finish_half(Half::kMlp, added, state.middle);
    }
  } else {
    const unsigned modules = w_.plan.recompute_modules;
    if ((modules & kCoreAttention) != 0) {
      core_attention(work_.forward, false, state.attention, state.attention);
    }
    if ((modules & (kMlp | kTorchPerOp)) != 0 && !sparse_) {
      products("", work_.forward, Half::kMlp, false, state.mlp, state.mlp);
    }
    if ((modules & kMoe) != 0 && sparse_) {
      products("", work_.forward, Half::kMlp, true, exchange_tokens("dispatch", state.middle),
               state.mlp);
    }
  }
  w_.builder.origin.phase = Phase::kBackward;
}

void ModelledLayer::weight_products(Half half, const Operand& d_output, const Operand& kept) {
  const Phase before = w_.builder.origin.phase;
  w_.builder.origin.phase = Phase::kWeightGradient;
  for (const models::Matmul& product : work_.weight_gradient.matmuls) {
    if (in_mlp(product.name) == (half == Half::kMlp)) {
      const GradientTarget target = w_.units.gradient(slot(of_experts(product.name)));
      w_.builder.compute(product.name, Kernel::kModelledMatmul,
                         {product.m, product.n, product.k, product.count},
                         {d_output, kept, target.operand});
    }
  }
  w_.builder.origin.phase = before;
}

Operand ModelledLayer::backward_half(Half half, const Operand& dy, const Operand& kept,
                                     Operand& d_kept, bool split) {
  const bool mlp = half == Half::kMlp;
  const bool routed = sparse_ && mlp;
  const std::int64_t tokens = routed ? w_.shape.local_tokens : w_.shape.tokens;
  const Operand all =
      routed ? dy : gather_tokens(w_, mlp ? "d_mlp_output" : "d_attention_output", dy);
  Operand again = kept;
  if (!routed && !split && w_.job.framework.regather_in_backward) {
    // The product's input is gathered again beside the input gradient.
    const Operand own{kept.buffer, kNoGroup, kept.offset, std::min(kept.count, dy.count)};
    if (own.count == dy.count) {
      again = gather_tokens(w_, mlp ? "mlp_input" : "attention_input", own);
    }
  }
  d_kept =
      w_.builder.buffer(mlp ? "d_mlp" : "d_attention",
                        std::max(tokens * w_.shape.hidden, kept.count / 2), ElementType::kCompute);
  Operand returned = d_kept;
  if (routed) {
    const Operand arrived = exchange_tokens("combine_gradient", dy);
    products("", work_.input_gradient, half, true, arrived, d_kept);
    returned = exchange_tokens("dispatch_gradient", d_kept);
  }
  if (!mlp) {
    core_attention(work_.input_gradient, true, kept, d_kept);
  }
  products("", work_.input_gradient, half, false, all, d_kept);
  pass(mlp ? "mlp_passes" : "attention_passes", work_.input_gradient, half, all, d_kept);
  const Operand partial = w_.builder.buffer(mlp ? "d_mlp_input" : "d_attention_input",
                                            tokens * w_.shape.hidden, ElementType::kCompute);
  w_.builder.modelled_pass("gradient", 0, Bytes(0), {d_kept, returned, partial});
  const Operand reduced =
      routed ? partial : reduce_tokens(w_, mlp ? "d_mlp_reduce" : "d_attention_reduce", partial);
  settle_tensor(w_);
  if (!split) {
    weight_products(half, d_kept, again);
  }
  w_.builder.modelled_pass("residual_gradient", 0, Bytes(0), {dy, reduced});
  return reduced;
}

Operand ModelledLayer::backward(const Operand& dy, ModelledState& state, bool split) {
  const Operand middle = backward_half(Half::kMlp, dy, state.mlp, state.d_mlp, split);
  const Operand dx =
      backward_half(Half::kAttention, middle, state.attention, state.d_attention, split);
  if (!split) {
    state = {};
  }
  return dx;
}

void ModelledLayer::weight_gradients(ModelledState& state) {
  weight_products(Half::kMlp, state.d_mlp, state.mlp);
  weight_products(Half::kAttention, state.d_attention, state.attention);
  state = {};
}

}  // namespace trireme::planner::lowering
