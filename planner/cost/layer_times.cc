#include "planner/cost/layer_times.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/cost/adapters.h"
#include "planner/cost/expert_time.h"
#include "planner/cost/layer_memory.h"
#include "planner/cost/layer_words.h"
#include "planner/cost/narrow_casts.h"
#include "planner/cost/product_time.h"
#include "planner/cost/written_passes.h"
#include "planner/plan/host_counts.h"
#include "planner/plan/narrow.h"
#include "planner/plan/sample_lengths.h"
#include "planner/plan/shape.h"

namespace trireme::planner {

using models::PassWork;
using topologies::Collective;
using topologies::GroupShape;
using topologies::Pass;

namespace {

void forget_own_kernels(PassWork& work) {
  for (models::MemoryBoundWork& pass : work.memory_bound) {
    pass.own.reset();
  }
}

double flop_of_pass(const PassWork& work) {
  double flop = 0;
  for (const models::Matmul& matmul : work.matmuls) {
    // Unfused scores and context compute the masked half too, which no FLOP convention counts.
    const bool masked =
        matmul.part == models::Part::kScores || matmul.part == models::Part::kContext;
    const double share = masked ? 0.5 : 1.0;
    flop += share * models::flop_of(matmul).value;
  }
  for (const models::AttentionWork& attention : work.attention) {
    flop += models::flop_of(attention, true).value;
  }
  return flop;
}

}  // namespace

std::int64_t casts_key(const Job& job, const Plan& plan) {
  if (!multiplies_narrow(job)) {
    return 0;
  }
  const KeptCodes codes = kept_codes(job, plan);
  std::int64_t key = plan.micro_batches;
  for (const bool kept :
       {codes.qkv, codes.up, codes.down, codes.experts_up, codes.experts_down, codes.shared_down}) {
    key = 2 * key + (kept ? 1 : 0);
  }
  return key;
}

bool splits_backward(const Plan& plan) {
  return plan.pipeline > 1 && splits_every_backward(plan.schedule);
}

bool ends_with_weights(const Plan& plan) {
  return plan.pipeline > 1 && (splits_every_backward(plan.schedule) || is_in_v(plan.schedule));
}

LayerKinds layer_kinds(const Job& job) {
  const models::Transformer& model = job.model;
  LayerKinds kinds;
  std::vector<std::tuple<bool, bool, bool, bool, bool>> known;
  const auto layers = static_cast<std::size_t>(models::trained_layers(model));
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const bool moe = models::is_moe_layer(model, static_cast<std::int64_t>(layer));
    const bool sliding = models::attention_window(model, static_cast<std::int64_t>(layer)) > 0;
    const bool frozen = static_cast<std::int64_t>(layer) < job.training.frozen_layers;
    const bool ends = ends_early(job, static_cast<std::int64_t>(layer));
    const bool predicts = static_cast<std::int64_t>(layer) >= model.layers;
    const std::tuple<bool, bool, bool, bool, bool> key(moe, sliding, frozen, ends, predicts);
    auto kind =
        static_cast<std::size_t>(std::find(known.begin(), known.end(), key) - known.begin());
    if (kind == known.size()) {
      known.push_back(key);
      kinds.first_layer.push_back(static_cast<std::int64_t>(layer));
      kinds.up_to.emplace_back(layers + 1, 0);
      double experts = 0;
      if (moe) {
        experts = static_cast<double>(model.moe->experts) * (model.gated_mlp ? 3.0 : 2.0) *
                  static_cast<double>(model.hidden) * static_cast<double>(model.moe->expert_ffn);
      }
      kinds.expert_parameters.push_back(experts);
      kinds.dense_parameters.push_back(static_cast<double>(models::layer_parameter_count(
                                           model, static_cast<std::int64_t>(layer))) -
                                       experts);
    }
    for (std::size_t k = 0; k < kinds.up_to.size(); ++k) {
      kinds.up_to[k][layer + 1] = kinds.up_to[k][layer] + (k == kind ? 1 : 0);
    }
  }
  return kinds;
}

LayerTimer::LayerTimer(const Job& job, const BehaviourFit& fit, Collectives& collectives)
    : job_(job),
      fit_(fit),
      collectives_(collectives),
      op_(job.cluster, job.profile),
      counts_(host_counts_of(job.framework)) {
  using models::Implementation;
  const Implementation implementation = job.framework.implementation;
  // TransformerEngine (and this project's runtime) call cuDNN or FlashAttention-3.
  portable_attention_ = job.framework.sharder != Sharder::kTrireme &&
                        implementation != Implementation::kTransformerEngine;
}

double LayerTimer::product(const models::Matmul& matmul, bool weight_gradient) const {
  const ProductWidth width = product_width(matmul.part, fp32_experts_);
  const ProductKind kind{matmul.wide ? ProductWidth::k16Bits : width, weight_gradient};
  const ProductKey key{matmul.m,
                       matmul.n,
                       matmul.k,
                       matmul.count,
                       static_cast<std::int64_t>(kind.width),
                       weight_gradient ? 1 : 0};
  const double* known = products_.find(key);
  return known != nullptr
             ? *known
             : products_.insert(
                   key, product_seconds(job_, op_, fit_, {key.m, key.n, key.k, key.count}, kind));
}

double LayerTimer::products(const std::vector<models::Matmul>& matmuls,
                            bool weight_gradient) const {
  double seconds = 0;
  for (const models::Matmul& matmul : matmuls) {
    seconds += product(matmul, weight_gradient);
  }
  return seconds;
}

double LayerTimer::core_attention(const PassWork& work, Pass pass, double share) const {
  double seconds = 0;
  for (const models::AttentionWork& a : work.attention) {
    seconds += op_.attention({.batch = a.batch,
                              .heads = a.heads,
                              .kv_heads = a.kv_heads,
                              .query_length = a.query_length,
                              .key_length = models::keys_seen(a),
                              .qk_dim = a.qk_dim,
                              .v_dim = a.v_dim,
                              .causal = a.causal,
                              .flash = true,
                              .portable = portable_attention_},
                             job_.precision, pass)
                   .value;
  }
  return share * seconds / fit_.attention_rate;
}

double LayerTimer::passes(const PassWork& work) const {
  double seconds = 0;
  for (const models::MemoryBoundWork& pass : work.memory_bound) {
    const auto measured =
        pass.own ? op_.own_kernel(*pass.own, pass.traffic, pass.kernels) : std::optional<Seconds>();
    if (measured) {
      seconds += measured->value;
      continue;
    }
    const double bytes = static_cast<double>(pass.traffic.value) * fit_.memory_traffic;
    seconds += op_.memory_bound(Bytes(static_cast<std::int64_t>(bytes)), pass.kernels).value;
  }
  return seconds;
}

double LayerTimer::host(const PassWork& work, bool backward) const {
  if (counts_ != nullptr) {
    return op_.launch(1).value * fit_.host_factor *
           counted_launches(*counts_, work, backward, shares_heads(job_.model)).plain;
  }
  int kernels = static_cast<int>(work.matmuls.size()) + static_cast<int>(work.attention.size());
  if (job_.framework.implementation == models::Implementation::kTrireme) {
    for (const models::Matmul& matmul : work.matmuls) {
      const bool experts = models::traits_of(matmul.part).routed;
      kernels += experts ? own_expert_launches(job_, matmul.count) - 1 : 0;
    }
  }
  for (const models::MemoryBoundWork& pass : work.memory_bound) {
    kernels += pass.kernels;
  }
  return op_.launch(kernels).value * fit_.host_factor;
}

LayerTimes LayerTimer::time_of(const models::LayerWork& work, double attention) const {
  LayerTimes times;
  times.forward.kernels = products(work.forward.matmuls) +
                          core_attention(work.forward, Pass::kForward, attention) +
                          passes(work.forward);
  times.input_gradient.kernels = products(work.input_gradient.matmuls) +
                                 core_attention(work.input_gradient, Pass::kBackward, attention) +
                                 passes(work.input_gradient);
  times.weight_gradient =
      products(work.weight_gradient.matmuls, true) + passes(work.weight_gradient);
  times.forward.host = host(work.forward, false);
  times.weight_host = host(work.weight_gradient, true);
  times.input_gradient.host = host(work.input_gradient, true) + times.weight_host;
  times.kernels_host = times.input_gradient.host;
  times.forward_flop = flop_of_pass(work.forward);
  return times;
}

// Samples packed into a sequence that the framework's host takes one after the other, on every rank
// of context parallelism all of them.
void LayerTimer::add_packed_samples(const Plan& plan, LayerTimes& times) const {
  if (job_.training.batching != Batching::kPacked || job_.training.lengths.empty()) {
    return;
  }
  const PassCount each = packed_sample_count(job_.framework, plan.context);
  const double samples = static_cast<double>(plan.micro_batch * job_.sequence) /
                         mean_length(job_.training, job_.sequence);
  const double launch = kPlainLaunch * op_.launch(1).value;
  const double forward = samples * launch * each.forward.plain;
  times.forward.host += forward;
  times.forward.kernels += waits_for_packed_samples(job_.framework) ? forward : 0;
  times.input_gradient.host += samples * launch * each.backward.plain;
}

// What one layer's recompute repeats in backward. This project's runtime repeats a layer up to the
// input of its last product, others all of it with its collectives.
void LayerTimer::set_recompute(const Plan& plan, std::int64_t layer, const models::LayerWork& work,
                               LayerTimes& times) const {
  if (plan.recompute == Recompute::kNone) {
    return;
  }
  const bool moe = models::is_moe_layer(job_.model, layer);
  const bool own = job_.framework.implementation == models::Implementation::kTrireme;
  const bool whole = plan.recompute == Recompute::kFull;
  const PassWork again = models::repeated_work(
      work.forward, {whole ? models::kWholeLayer : plan.recompute_modules, own});
  PassTimes& times_again = times.recompute;
  times_again.kernels = products(again.matmuls) +
                        core_attention(again, Pass::kForward, attention_share(job_, plan)) +
                        passes(again) + torch_steps(plan, again, Pass::kForward);
  times_again.host = host(again, false);
  times.recompute_flop = flop_of_pass(again);
  if (has_tiled_mlp(job_, plan, moe)) {
    // Repeated by itself once more, inside the layer that is repeated.
    const PassWork nested = models::repeated_work(work.forward, {models::kMlp, own});
    times_again.kernels += products(nested.matmuls) + passes(nested);
    times.recompute_flop += flop_of_pass(nested);
  }
  if (whole && plan.tensor > 1) {
    times_again.host += (fit_.repeated_tensor_host - 1) / 3 *
                        tensor_host_seconds(fit_, job_.framework, op_.launch(1).value);
  }
  if (shares_attention(plan, layer) && (whole || (plan.recompute_modules & kCoreAttention) != 0)) {
    PassTimes shared = shared_attention(plan, work.forward, false);  // keys come again
    shared.host = whole ? 0 : shared.host;
    times_again += shared;
  } else if (whole) {
    times_again.context = times.forward.context;
  }
  if (whole) {
    times_again.tensor = times.forward.tensor;
    times_again.host += times.forward.host - host(work.forward, false);
    if (own && !moe && plan.tensor > 1) {
      times_again.tensor -= collectives_.time(
          plan.sequence_parallel ? Collective::kReduceScatter : Collective::kAllReduce,
          collectives_.group(plan, Axis::kTensor), stream_bytes(job_, plan));
    }
  }
  if (counts_ != nullptr && plan.recompute == Recompute::kSelective &&
      plan.recompute_modules == kTorchPerOp) {
    const double launch = op_.launch(1).value * fit_.host_factor;
    times.forward.host += launch * counts_->per_op.forward.plain;
    times_again.host += launch * counts_->per_op.backward.plain;
  }
  if (whole || (plan.recompute_modules & kMoe) != 0) {
    const ExpertExchanges exchanges = moe ? expert_exchanges(plan, layer) : ExpertExchanges{};
    times_again.expert = times.forward.expert - (exchanges.of_runtime ? exchanges.scatter : 0);
  }
}

LayerTimer::Bare LayerTimer::bare(models::LayerWork work, double attention) const {
  Bare bare;
  bare.times = time_of(work, attention);
  bare.forward_products = products(work.forward.matmuls);
  const auto add = [&](const std::vector<models::Matmul>& matmuls, bool weight) {
    for (const models::Matmul& matmul : matmuls) {
      const models::PartTraits& traits = models::traits_of(matmul.part);
      Bare::Beside& beside = bare.beside[static_cast<std::size_t>(traits.half)];
      const double seconds = product(matmul, weight);
      (traits.column_parallel ? (weight ? beside.column_weight : beside.column_input)
                              : beside.other_weight) +=
          traits.column_parallel || weight ? seconds : 0;
    }
  };
  add(work.input_gradient.matmuls, false);
  add(work.weight_gradient.matmuls, true);
  bare.work = std::move(work);
  return bare;
}

const LayerTimer::BareSet& LayerTimer::bare_set(const Plan& plan, const LayerKinds& kinds) {
  const BareKey key{plan.tensor,           plan.context,         plan.expert,
                    plan.expert_tensor,    plan.micro_batch,     plan.sequence_parallel ? 1 : 0,
                    fp32_experts_ ? 1 : 0, casts_key(job_, plan)};
  if (const BareSet* found = bare_.find(key)) {
    return *found;
  }
  BareSet set;
  const models::Transformer model = padded_model(job_, plan);
  const models::Shard shard = shard_of(job_, plan, timed_sequence(job_, plan));
  const models::Kernels kernels = kernels_of(job_);
  for (const std::int64_t layer : kinds.first_layer) {
    models::LayerWork work = models::layer_work(model, layer, shard, kernels);
    if (is_modelled_layer(job_, plan, layer)) {  // no kernel of the runtime's runs there
      forget_own_kernels(work.forward);
      forget_own_kernels(work.input_gradient);
    }
    write_out_passes(job_.framework, work);
    add_narrow_casts(job_, plan, layer, work);
    freeze_layer(job_, plan, layer, work);
    set.kinds.push_back(bare(std::move(work), attention_share(job_, plan)));
  }
  models::LayerWork embedding = models::embedding_work(model, shard, kernels);
  models::LayerWork head = models::head_work(model, shard, kernels);
  write_out_passes(job_.framework, head);
  freeze_ends(job_, embedding, head);
  set.embedding = time_of(embedding, 1);
  set.head = bare(std::move(head), 1);
  return bare_.insert(key, std::move(set));
}

namespace {

// The reference's forward pass, which keeps nothing, beside the model's own.
void add_reference(LayerSet& set) {
  const auto twice = [](PassTimes& pass) {
    for (double* part :
         {&pass.kernels, &pass.tensor, &pass.context, &pass.expert, &pass.hidden, &pass.host}) {
      *part *= 2;
    }
  };
  for (LayerTimes& kind : set.kinds) {
    twice(kind.forward);
  }
  twice(set.embedding.forward);
  twice(set.head.forward);
}

}  // namespace

LayerSet LayerTimer::measure(const Plan& plan, const LayerKinds& kinds) {
  fp32_experts_ = has_fp32_experts(job_, plan);
  const BareSet& bare = bare_set(plan, kinds);
  LayerSet set;
  for (std::size_t kind = 0; kind < kinds.first_layer.size(); ++kind) {
    const std::int64_t layer = kinds.first_layer[kind];
    const bool moe = models::is_moe_layer(job_.model, layer);
    const models::LayerWork& work = bare.kinds[kind].work;
    LayerTimes times = bare.kinds[kind].times;
    add_tensor(plan, bare.kinds[kind], moe, times);
    add_context(plan, layer, work, times);
    if (moe) {
      add_expert(plan, layer, bare.kinds[kind], times);
    }
    add_packed_samples(plan, times);
    set_recompute(plan, layer, work, times);
    if (moe && overlaps_experts(job_, plan)) {
      overlap_exchanges(overlapped_share(plan), times);
    }
    if (layer < job_.training.frozen_layers) {
      times.recompute = {};
      times.input_gradient = {};
      times.recompute_flop = 0;
    }
    set.kinds.push_back(times);
  }
  set.embedding = bare.embedding;
  set.head = bare.head.times;
  add_head_collectives(plan, bare.head, set.embedding, set.head);
  if (job_.training.reference) {
    add_reference(set);
  }
  return set;
}

}  // namespace trireme::planner
