// What ranks that share sequences add to a layer's attention: exchanges, what of them stays
// exposed, and the kernels of this project's own.
#include <algorithm>

#include "planner/cost/context_pieces.h"
#include "planner/cost/layer_times.h"
#include "planner/cost/layer_words.h"
#include "planner/cost/ring_attention.h"
#include "planner/cost/torch_context.h"
#include "planner/plan/sample_lengths.h"
#include "planner/plan/shape.h"

namespace trireme::planner {

using topologies::Collective;
using topologies::GroupShape;
using topologies::Pass;

// Ulysses (3.4): queries, keys and values leave with a share of the tokens and come back with a
// share of the heads, the output the other way; nothing runs beside them. Keys and values with
// fewer heads than ranks are copied first.
void LayerTimer::exchange_heads(const Plan& plan, LayerTimes& times) const {
  const models::Transformer& model = job_.model;
  const double tokens = static_cast<double>(plan.micro_batch * timed_sequence(job_, plan)) /
                        static_cast<double>(plan.context);
  const auto tensor = static_cast<double>(plan.tensor);
  const double heads = static_cast<double>(model.heads) / tensor;
  const double shared = std::max(static_cast<double>(model.kv_heads) / tensor,
                                 std::min(heads, static_cast<double>(plan.context)));
  const double token = kActivationBytes * tokens * static_cast<double>(model.head_dim);
  const GroupShape group = collectives_.group(plan, Axis::kContext);
  const double exchange = 2 * collectives_.time(Collective::kAllToAll, group, token * heads) +
                          2 * collectives_.time(Collective::kAllToAll, group, token * shared);
  times.forward.context += exchange;
  times.input_gradient.context += exchange;
}

namespace {

models::MemoryBoundWork pass_of(Kernel kernel, double bytes) {
  return {.part = models::Part::kAttentionNorm,
          .traffic = Bytes(static_cast<std::int64_t>(bytes)),
          .kernels = 1,
          .own = kernel};
}

// Bytes of this rank's rows of the tensors that attention of shared sequences moves.
struct RowBytes {
  double qkv, keys, out, statistics;
  explicit RowBytes(const Shape& s)
      : qkv(kActivationBytes * static_cast<double>(s.tokens * s.qkv)),
        keys(kActivationBytes *
             static_cast<double>(s.tokens * s.kv_heads * (s.head_dim + s.v_dim))),
        out(kActivationBytes * static_cast<double>(s.tokens * s.attention)),
        statistics(4 * static_cast<double>(s.tokens * s.heads)) {}
};

}  // namespace

// Keys and values are packed and gathered rows put in order, once a direction; backward orders and
// unpacks their gradients too (planner/lower/layer_forward.cc). Attention itself goes by pieces.
PassTimes LayerTimer::gathered_attention(const Plan& plan, bool backward) const {
  const Shape shape = shape_of(job_, plan);
  const RowBytes rows(shape);
  const double all = rows.keys * static_cast<double>(plan.context);
  const ContextPieces pieces =
      context_pieces({shape.batch, shape.sequence / plan.context, plan.context, shape.heads,
                      shape.kv_heads, shape.head_dim},
                     backward);
  models::PassWork work;
  work.memory_bound = {
      {.part = models::Part::kAttentionNorm, .traffic = pieces.traffic, .kernels = pieces.kernels},
      pass_of(Kernel::kKeysOut, rows.qkv + rows.keys),
      pass_of(Kernel::kRowsInOrder, 2 * all)};
  const GroupShape group = collectives_.group(plan, Axis::kContext);
  PassTimes times;
  times.context = collectives_.time(Collective::kAllGather, group, all);
  if (backward) {
    work.memory_bound.push_back(pass_of(Kernel::kRowsInOrder, 2 * all));
    work.memory_bound.push_back(pass_of(Kernel::kKeysIn, 2 * rows.qkv + rows.keys));
    times.context += collectives_.time(Collective::kReduceScatter, group, all);
  }
  times.kernels = passes(work);
  times.host = host(work, backward);
  return times;
}

// One step of the ring, and what ends it: the merge of its output, or the sum of its keys'
// gradients and those that came.
double LayerTimer::ring_step(const Plan& plan, bool own, Pass pass) const {
  const Shape s = shape_of(job_, plan);
  const RowBytes rows(s);
  const RingShape ring{s.batch, s.tokens / s.batch, s.heads, s.kv_heads, s.head_dim, s.v_dim};
  const RingPieces pieces = ring_pieces(ring, pass);
  models::PassWork work;
  if (pieces.kernels > 0) {
    work.memory_bound.push_back({.part = models::Part::kAttentionNorm,
                                 .traffic = pieces.traffic,
                                 .kernels = pieces.kernels});
  }
  if (pass == Pass::kForward) {  // sums in fp32: written by the first step, updated by others
    const double sums = 2 * rows.out + rows.statistics;
    work.memory_bound.push_back(
        pass_of(Kernel::kRingMerge, rows.out + rows.statistics + (own ? 1 : 2) * sums));
  } else if (!own) {
    work.memory_bound.push_back(pass_of(Kernel::kAdd, 3 * rows.keys));
  }
  return ring_step_seconds(op_, ring, own, job_.precision, pass).value *
             attention_share(job_, plan) / fit_.attention_rate +
         passes(work);
}

// Keys and values go to the next rank beside every step but the last; their gradients beside every
// step but the first, and once more when all is done (planner/lower/layer_ring.cc).
PassTimes LayerTimer::ring_attention(const Plan& plan, const models::PassWork& whole,
                                     bool backward) const {
  const RowBytes rows(shape_of(job_, plan));
  const Pass pass = backward ? Pass::kBackward : Pass::kForward;
  const double hop =
      collectives_.time(Collective::kSendRecv, collectives_.pair(plan, Axis::kContext), rows.keys);
  const double own = ring_step(plan, true, pass);
  const double other = ring_step(plan, false, pass);
  const auto others = static_cast<double>(plan.context - 1);
  PassTimes times;
  models::PassWork around;
  around.memory_bound.push_back(pass_of(Kernel::kKeysOut, rows.qkv + rows.keys));
  // Beside a step goes a hop or two; what takes longer sets the pace.
  const auto step = [&](double compute, double communication) {
    const double hidden = std::min(compute, communication);
    times.hidden += hidden;
    times.context += std::max(communication - compute, fit_.overlap_slowdown * hidden);
  };
  step(own, hop);
  for (std::int64_t at = 1; at < plan.context - 1; ++at) {
    step(other, backward ? 2 * hop : hop);
  }
  if (backward) {
    around.memory_bound.push_back(pass_of(Kernel::kZero, rows.qkv));
    around.memory_bound.push_back(pass_of(Kernel::kKeysIn, 2 * rows.qkv + rows.keys));
    step(other, hop);
    times.context += hop;
  } else {
    around.memory_bound.push_back(pass_of(Kernel::kCast, 3 * rows.out));
  }
  times.kernels = own + others * other + passes(around) -
                  core_attention(whole, pass, attention_share(job_, plan));
  // An attention and what ends it a step, of which one is there; hops are launched too.
  const int steps = static_cast<int>(plan.context);
  const int attention = backward ? 3 * steps + steps - 1 : 2 * steps;
  const int hops = backward ? 2 * steps - 1 : steps - 1;
  times.host = host(around, backward) + op_.launch(attention - 1 + hops).value * fit_.host_factor;
  return times;
}

// What no kernel of the runtime's runs is written as the frameworks' ring
// (planner/lower/modelled_attention.cc).
bool LayerTimer::shares_attention(const Plan& plan, std::int64_t layer) const {
  return plan.context > 1 && context_form(job_.framework) != ContextForm::kExchangeHeads &&
         !is_modelled_layer(job_, plan, layer);
}

PassTimes LayerTimer::shared_attention(const Plan& plan, const models::PassWork& whole,
                                       bool backward) const {
  return context_form(job_.framework) == ContextForm::kGather
             ? gathered_attention(plan, backward)
             : ring_attention(plan, whole, backward);
}

// Elements of this rank's keys and values, as they travel.
double LayerTimer::moved_keys(const Plan& plan) const {
  const models::Transformer& model = job_.model;
  const double tokens = static_cast<double>(plan.micro_batch * timed_sequence(job_, plan)) /
                        static_cast<double>(plan.context);
  if (model.latent) {
    return tokens *
           static_cast<double>(model.heads * (model.latent->qk_nope + model.latent->qk_rope +
                                              model.latent->v_head)) /
           static_cast<double>(plan.tensor);
  }
  const std::int64_t heads = job_.framework.context_repeats_heads
                                 ? model.heads
                                 : std::max<std::int64_t>(model.kv_heads, 1);
  return tokens * 2.0 * static_cast<double>(heads * model.head_dim) /
         static_cast<double>(std::min(plan.tensor, heads));
}

// The frameworks' ring attention: c - 1 exchanges of a key-value chunk beside the attention of the
// chunk before; or all keys and values gathered first (3.4), by PyTorch beside a rank's own chunk.
void LayerTimer::add_context(const Plan& plan, std::int64_t layer, const models::LayerWork& work,
                             LayerTimes& times) const {
  if (plan.context <= 1) {
    return;
  }
  if (context_form(job_.framework) == ContextForm::kExchangeHeads) {
    exchange_heads(plan, times);
    return;
  }
  if (shares_attention(plan, layer)) {
    times.forward += shared_attention(plan, work.forward, false);
    times.input_gradient += shared_attention(plan, work.input_gradient, true);
    return;
  }
  const double bytes =  // of all keys and values
      kActivationBytes * static_cast<double>(plan.context) * moved_keys(plan);
  const GroupShape group = collectives_.group(plan, Axis::kContext);
  const double gather = collectives_.time(Collective::kAllGather, group, bytes);
  const double scatter = collectives_.time(Collective::kReduceScatter, group, bytes);
  const double forward = core_attention(work.forward, Pass::kForward, attention_share(job_, plan));
  const double backward =
      core_attention(work.input_gradient, Pass::kBackward, attention_share(job_, plan));
  const auto degree = static_cast<double>(plan.context);
  const bool gathers = context_form(job_.framework) == ContextForm::kGather;
  const auto ring = [&](double communication, double compute, PassTimes& pass) {
    return beside(communication, gathers ? 0 : compute * (degree - 1) / degree, pass);
  };
  if (counts_ != nullptr) {
    const double launch = op_.launch(1).value * fit_.host_factor;
    times.forward.host += launch * degree * counts_->ring.forward.plain;
    times.input_gradient.host += launch * degree * counts_->ring.backward.plain;
  }
  if (!has_torch_context(job_.framework)) {
    times.forward.context += ring(gather, forward, times.forward);
    times.input_gradient.context += ring(gather + scatter, backward, times.input_gradient);
    return;
  }
  times.forward.kernels += torch_steps(plan, work.forward, Pass::kForward);
  // Gradients of a step's keys leave while it is added up.
  const double sums = torch_steps(plan, work.input_gradient, Pass::kBackward);
  times.input_gradient.kernels += sums;
  const double gradients = kTorchGradientWidth * scatter;
  const double own = 1 / degree;
  if (!gathers) {
    times.forward.context += ring(gather, forward, times.forward);
    times.input_gradient.context +=
        beside(gather + gradients, (1 - own) * backward + sums, times.input_gradient);
    return;
  }
  times.forward.context += beside(gather, own * forward, times.forward);
  times.input_gradient.context +=
      beside(gather, own * backward, times.input_gradient) +
      beside(gradients, (1 - own) * backward + sums, times.input_gradient);
}

// What PyTorch does around the attention of each step, where one kernel runs it.
double LayerTimer::torch_steps(const Plan& plan, const models::PassWork& work, Pass pass) const {
  if (plan.context == 1 || !has_torch_context(job_.framework) || work.attention.empty() ||
      context_form(job_.framework) == ContextForm::kExchangeHeads) {
    return 0;
  }
  const Shape shape = shape_of(job_, plan);
  const TorchContext steps{static_cast<double>(plan.context),
                           static_cast<double>(shape.tokens * shape.attention), moved_keys(plan)};
  models::PassWork around;
  around.memory_bound.push_back(
      {.part = models::Part::kAttentionNorm, .traffic = torch_context_traffic(steps, pass)});
  return passes(around);
}

}  // namespace trireme::planner
