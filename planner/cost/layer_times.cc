#include "planner/cost/layer_times.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <tuple>
#include <utility>

#include "planner/cost/adapters.h"
#include "planner/cost/layer_words.h"
#include "planner/cost/product_time.h"
#include "planner/plan/sample_lengths.h"
#include "planner/plan/shape.h"

namespace trireme::planner {

using models::PassWork;
using topologies::Collective;
using topologies::GroupShape;
using topologies::Pass;

namespace {

// Megatron-LM of 2020 to 2022 trains with its default dropout of 0.1 unless something else is said.
constexpr double kClassicDropout = 0.1;

models::Kernels kernels_of(const Job& job) {
  const bool classic = job.framework.implementation == models::Implementation::kClassicMegatron;
  return {
      .implementation = job.framework.implementation,
      .dropout = classic && job.framework.dropout == 0 ? kClassicDropout : job.framework.dropout,
      .fused_cross_entropy = job.framework.cross_entropy_fusion};
}

models::Shard shard_of(const Job& job, const Plan& plan) {
  models::Shard shard;
  shard.micro_batch = plan.micro_batch;
  shard.sequence = timed_sequence(job, plan);
  shard.tensor_parallel = plan.tensor;
  shard.context_parallel = plan.context;
  shard.expert_parallel = plan.expert;
  shard.expert_tensor_parallel = plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor;
  shard.sequence_parallel = plan.sequence_parallel;
  shard.attention = job.attention;
  return shard;
}

void forget_own_kernels(PassWork& work) {
  for (models::MemoryBoundWork& pass : work.memory_bound) {
    pass.own.reset();
  }
}

double flop_of_pass(const PassWork& work) {
  double flop = 0;
  for (const models::Matmul& matmul : work.matmuls) {
    // Unfused scores and context compute the masked half too, which no FLOP convention counts.
    const double share = is_named(matmul.name, {"scores", "context"}) ? 0.5 : 1.0;
    flop += share * models::flop_of(matmul).value;
  }
  for (const models::AttentionWork& attention : work.attention) {
    flop += models::flop_of(attention, true).value;
  }
  return flop;
}

}  // namespace

bool splits_backward(const Plan& plan) {
  return plan.pipeline > 1 &&
         (plan.schedule == Schedule::kZeroBubbleH1 || plan.schedule == Schedule::kZeroBubbleH2);
}

LayerKinds layer_kinds(const models::Transformer& model, std::int64_t frozen_layers) {
  LayerKinds kinds;
  std::vector<std::tuple<bool, bool, bool>> known;
  const auto layers = static_cast<std::size_t>(model.layers);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const bool moe = models::is_moe_layer(model, static_cast<std::int64_t>(layer));
    const bool sliding =
        model.sliding_window > 0 && (model.sliding_layers.empty() || model.sliding_layers[layer]);
    const bool frozen = static_cast<std::int64_t>(layer) < frozen_layers;
    const std::tuple<bool, bool, bool> key(moe, sliding, frozen);
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
    : job_(job), fit_(fit), collectives_(collectives), op_(job.cluster, job.profile) {
  using models::Implementation;
  const Implementation implementation = job.framework.implementation;
  // TransformerEngine (and this project's runtime) call cuDNN or FlashAttention-3.
  portable_attention_ = job.framework.sharder != Sharder::kTrireme &&
                        implementation != Implementation::kTransformerEngine;
}

double LayerTimer::products(const std::vector<models::Matmul>& matmuls) const {
  double seconds = 0;
  for (const models::Matmul& matmul : matmuls) {
    const bool stays_wide = is_named(matmul.name, {"scores", "context", "head", "router"});
    seconds +=
        product_seconds(job_, op_, fit_, {matmul.m, matmul.n, matmul.k, matmul.count}, stays_wide);
  }
  return seconds;
}

double LayerTimer::products_named(const std::vector<models::Matmul>& matmuls,
                                  std::initializer_list<const char*> names) const {
  std::vector<models::Matmul> chosen;
  std::copy_if(matmuls.begin(), matmuls.end(), std::back_inserter(chosen),
               [&](const models::Matmul& matmul) { return is_named(matmul.name, names); });
  return products(chosen);
}

double LayerTimer::core_attention(const PassWork& work, Pass pass, double share) const {
  double seconds = 0;
  for (const models::AttentionWork& a : work.attention) {
    const std::int64_t keys = a.window > 0 ? std::min(a.key_length, 2 * a.window) : a.key_length;
    seconds += op_.attention({.batch = a.batch,
                              .heads = a.heads,
                              .kv_heads = a.kv_heads,
                              .query_length = a.query_length,
                              .key_length = keys,
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

double LayerTimer::host(const PassWork& work) const {
  int kernels = static_cast<int>(work.matmuls.size()) + static_cast<int>(work.attention.size());
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
  times.weight_gradient = products(work.weight_gradient.matmuls) + passes(work.weight_gradient);
  times.forward.host = host(work.forward);
  times.input_gradient.host = host(work.input_gradient) + host(work.weight_gradient);
  times.forward_flop = flop_of_pass(work.forward);
  return times;
}

// What one layer's recompute repeats in backward.
// This project's runtime repeats a layer up to the input of its last product.
void LayerTimer::drop_last_product(const Plan& plan, const models::LayerWork& work,
                                   LayerTimes& times) const {
  PassWork last;
  const auto& matmuls = work.forward.matmuls;
  std::copy_if(matmuls.begin(), matmuls.end(), std::back_inserter(last.matmuls),
               [](const models::Matmul& matmul) { return is_named(matmul.name, {"mlp_down"}); });
  for (const models::MemoryBoundWork& pass : work.forward.memory_bound) {
    if (is_named(pass.name, {"residual"})) {
      last.memory_bound = {pass};
    }
  }
  times.recompute.kernels -= products(last.matmuls) + passes(last);
  times.recompute.host -= host(last);
  times.recompute_flop -= flop_of_pass(last);
  if (plan.tensor > 1) {
    const GroupShape group = collectives_.group(plan, Axis::kTensor);
    times.recompute.tensor -= collectives_.time(
        plan.sequence_parallel ? Collective::kReduceScatter : Collective::kAllReduce, group,
        stream_bytes(job_, plan));
  }
}

void LayerTimer::set_recompute(const Plan& plan, const models::LayerWork& work,
                               LayerTimes& times) const {
  if (plan.recompute == Recompute::kNone) {
    return;
  }
  if (plan.recompute == Recompute::kFull) {
    times.recompute = times.forward;
    times.recompute.hidden = 0;
    times.recompute_flop = times.forward_flop;
    if (job_.framework.implementation == models::Implementation::kTrireme) {
      drop_last_product(plan, work, times);
    }
    return;
  }
  PassWork again;
  const unsigned modules = plan.recompute_modules;
  const auto keep = [&](std::initializer_list<const char*> matmuls,
                        std::initializer_list<const char*> passes) {
    for (const models::Matmul& matmul : work.forward.matmuls) {
      if (is_named(matmul.name, matmuls)) {
        again.matmuls.push_back(matmul);
      }
    }
    for (const models::MemoryBoundWork& pass : work.forward.memory_bound) {
      if (is_named(pass.name, passes)) {
        again.memory_bound.push_back(pass);
      }
    }
  };
  if ((modules & kTorchPerOp) != 0) {
    // Attention and every second product are kept; all passes are repeated.
    for (std::size_t i = 1; i < work.forward.matmuls.size(); i += 2) {
      again.matmuls.push_back(work.forward.matmuls[i]);
    }
    again.memory_bound = work.forward.memory_bound;
  } else {
    if ((modules & kCoreAttention) != 0) {
      keep({"scores", "context"}, {"softmax"});
      again.attention = work.forward.attention;
    }
    if ((modules & kLayerNorm) != 0) {
      keep({}, {"norm"});
    }
    if ((modules & kMlp) != 0) {
      const bool own = job_.framework.implementation == models::Implementation::kTrireme;
      keep({"mlp_up", "mlp_gate", own ? "" : "mlp_down"}, {"activation"});
    }
    if ((modules & kMlaUpProjection) != 0) {
      keep({"q_up", "kv_up"}, {"rotary", "qkv_layout"});
    }
    if ((modules & kMoe) != 0) {
      keep({"experts_up", "experts_down", "router"},
           {"router", "permute", "unpermute", "activation"});
      times.recompute.expert += times.forward.expert;
    } else if ((modules & kMoeActivation) != 0) {
      keep({}, {"activation"});
    }
    if ((modules & kSharedExperts) != 0) {
      keep({"shared_up", "shared_gate", "shared_down"}, {});
    }
  }
  times.recompute.kernels = products(again.matmuls) +
                            core_attention(again, Pass::kForward, attention_share(job_, plan)) +
                            passes(again);
  times.recompute.host = host(again);
  times.recompute_flop = flop_of_pass(again);
}

LayerTimer::Bare LayerTimer::bare(models::LayerWork work, double attention) const {
  Bare bare;
  bare.times = time_of(work, attention);
  const auto columns = {"qkv", "q", "k", "v", "q_up", "kv_up", "mlp_up", "mlp_gate"};
  bare.forward_products = products(work.forward.matmuls);
  bare.column_input = products_named(work.input_gradient.matmuls, columns);
  bare.column_weight = products_named(work.weight_gradient.matmuls, columns);
  bare.work = std::move(work);
  return bare;
}

const LayerTimer::BareSet& LayerTimer::bare_set(const Plan& plan, const LayerKinds& kinds) {
  const BareKey key{plan.tensor,        plan.context,     plan.expert,
                    plan.expert_tensor, plan.micro_batch, plan.sequence_parallel ? 1 : 0};
  if (const BareSet* found = bare_.find(key)) {
    return *found;
  }
  BareSet set;
  models::Transformer model = job_.model;
  if (job_.framework.pad_vocabulary) {
    const std::int64_t unit = 128 * plan.tensor;
    model.vocab = (model.vocab + unit - 1) / unit * unit;
  }
  const models::Shard shard = shard_of(job_, plan);
  const models::Kernels kernels = kernels_of(job_);
  for (const std::int64_t layer : kinds.first_layer) {
    models::LayerWork work = models::layer_work(model, layer, shard, kernels);
    if (is_modelled_layer(job_, plan, layer)) {  // no kernel of the runtime's runs there
      forget_own_kernels(work.forward);
      forget_own_kernels(work.input_gradient);
    }
    freeze_layer(job_, plan, work);
    if (layer < job_.training.frozen_layers) {
      work.input_gradient = work.weight_gradient = {};
    }
    set.kinds.push_back(bare(std::move(work), attention_share(job_, plan)));
  }
  models::LayerWork embedding = models::embedding_work(model, shard, kernels);
  models::LayerWork head = models::head_work(model, shard, kernels);
  freeze_ends(job_, embedding, head);
  set.embedding = time_of(embedding, 1);
  set.head = time_of(head, 1);
  return bare_.insert(key, std::move(set));
}

LayerSet LayerTimer::measure(const Plan& plan, const LayerKinds& kinds) {
  const BareSet& bare = bare_set(plan, kinds);
  LayerSet set;
  for (std::size_t kind = 0; kind < kinds.first_layer.size(); ++kind) {
    const bool moe = models::is_moe_layer(job_.model, kinds.first_layer[kind]);
    const models::LayerWork& work = bare.kinds[kind].work;
    LayerTimes times = bare.kinds[kind].times;
    add_tensor(plan, bare.kinds[kind], moe, times);
    add_context(plan, work, times);
    if (moe) {
      add_expert(plan, work, times);
    }
    set_recompute(plan, work, times);
    if (kinds.first_layer[kind] < job_.training.frozen_layers) {
      times.recompute = {};
      times.input_gradient = {};
      times.recompute_flop = 0;
    }
    set.kinds.push_back(times);
  }
  set.embedding = bare.embedding;
  set.head = bare.head;
  add_head_collectives(plan, set.embedding, set.head);
  return set;
}

}  // namespace trireme::planner
