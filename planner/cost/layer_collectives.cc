// Tensor and expert collectives inside a layer, and what of them stays exposed.
#include <algorithm>

#include "planner/cost/adapters.h"
#include "planner/cost/expert_time.h"
#include "planner/cost/layer_times.h"
#include "planner/cost/layer_words.h"
#include "planner/plan/sample_lengths.h"
#include "planner/plan/shape.h"

namespace trireme::planner {

using topologies::Collective;
using topologies::GroupShape;
using topologies::Pass;

// What of a collective is left beside compute: what compute does not cover, and the share by which
// compute gets longer.
double LayerTimer::beside(double communication, double compute, PassTimes& pass) const {
  const double hidden = std::min(communication, compute);
  pass.hidden += hidden;
  return communication - hidden + fit_.overlap_slowdown * hidden;
}

// Megatron's collectives of one dense layer (training_systems 3.1): after each row-parallel product
// an all-reduce, or under sequence parallelism a reduce-scatter, with the all-gather before each
// column-parallel one. An expert layer's tokens leave through the expert collectives; only
// attention is tensor parallel there.
void LayerTimer::add_tensor(const Plan& plan, const Bare& bare, bool moe, LayerTimes& times) const {
  if (plan.tensor <= 1) {
    return;
  }
  if (plan.sequence_parallel) {
    add_sequence_tensor(plan, bare, moe, times);
  } else {
    const double reduce = collectives_.time(
        Collective::kAllReduce, collectives_.group(plan, Axis::kTensor), stream_bytes(job_, plan));
    // A split backward has no weight gradient beside the input gradient's collective.
    const bool overlap = overlaps_tensor_backward(job_.framework, false) && !splits_backward(plan);
    for (const models::Half half : {models::Half::kAttention, models::Half::kMlp}) {
      if (half == models::Half::kMlp && moe) {
        continue;
      }
      const Bare::Beside& compute = bare.beside[static_cast<std::size_t>(half)];
      const double back =
          collectives_.time(Collective::kAllReduce, collectives_.group(plan, Axis::kTensor),
                            stream_bytes(job_, plan) * input_share(half));
      times.forward.tensor += reduce;
      times.input_gradient.tensor +=
          overlap ? beside(back, compute.column_weight, times.input_gradient) : back;
    }
  }
  const double host = tensor_host_seconds(fit_, job_.framework, op_.launch(1).value);
  times.forward.host += host / 3;
  times.input_gradient.host += host * 2 / 3;
  if (counts_ != nullptr) {
    // Under sequence parallelism each half gathers and scatters, and gathers again in backward.
    const double halves = moe ? 1 : 2;
    const bool again = plan.sequence_parallel && job_.framework.regather_in_backward;
    const double each = halves * (plan.sequence_parallel ? 2 : 1);
    const double launch = op_.launch(1).value * fit_.host_factor;
    times.forward.host += launch * each * counts_->collective.forward.plain;
    times.input_gradient.host +=
        launch * (each + (again ? halves : 0)) * counts_->collective.backward.plain;
  }
}

// What a half's column-parallel products read, by the residual stream. This project's latent
// attention gathers its latents and the rotary key.
double LayerTimer::input_share(models::Half half) const {
  const auto& latent = job_.model.latent;
  if (half != models::Half::kAttention || !latent ||
      job_.framework.implementation != models::Implementation::kTrireme) {
    return 1;
  }
  const std::int64_t queries = latent->q_lora > 0 ? latent->q_lora : job_.model.hidden;
  return static_cast<double>(queries + latent->kv_lora + latent->qk_rope) /
         static_cast<double>(job_.model.hidden);
}

namespace {

// Whether a half's backward reads the input of its column-parallel products: of this project's
// frozen ones an adapter's does alone.
bool reads_column_input(const Job& job, models::Half half) {
  const unsigned targets = half == models::Half::kMlp ? kTargetGate | kTargetUp
                                                      : kTargetQuery | kTargetKey | kTargetValue;
  return !job.training.has_adapters() || (job.training.targets & targets) != 0 ||
         job.framework.implementation != models::Implementation::kTrireme;
}

}  // namespace

// In backward the input gradient's reduce-scatter runs beside the weight gradient's product, the
// second gather of the inputs beside the input gradient's.
void LayerTimer::add_sequence_tensor(const Plan& plan, const Bare& bare, bool moe,
                                     LayerTimes& times) const {
  const GroupShape group = collectives_.group(plan, Axis::kTensor);
  const double bytes = stream_bytes(job_, plan);
  const double gather = collectives_.time(Collective::kAllGather, group, bytes);
  const double scatter = collectives_.time(Collective::kReduceScatter, group, bytes);
  const auto gather_of = [&](models::Half half) {
    return collectives_.time(Collective::kAllGather, group, bytes * input_share(half));
  };
  const bool split = splits_backward(plan);
  const bool overlap = overlaps_tensor_backward(job_.framework, true) && !split;
  const double blocks = moe ? 1 : 2;
  double forward = gather_of(models::Half::kAttention) + (blocks - 1) * gather + blocks * scatter;
  double exposed_gather = blocks * gather;  // gradient of the reduce-scatter
  if (job_.framework.tp_comm_overlap) {
    // Chunks of the product and of the collective run in turn: one of `tensor` chunks is always
    // exposed.
    const double chunk = 1.0 / static_cast<double>(plan.tensor);
    forward =
        std::max(forward * chunk, beside(forward, 0.8 * bare.forward_products, times.forward));
    double columns = 0;
    for (const Bare::Beside& half : bare.beside) {
      columns += half.column_input;
    }
    exposed_gather = std::max(exposed_gather * chunk,
                              beside(exposed_gather, 0.8 * columns, times.input_gradient));
  }
  times.forward.tensor += forward;
  times.input_gradient.tensor += exposed_gather;
  // This project's runtime gathers the inputs when a half's backward begins, and reads them last.
  const auto until_read = [&](models::Half half, const Bare::Beside& compute) {
    double seconds = compute.column_input;
    if (job_.framework.implementation != models::Implementation::kTrireme) {
      return seconds;
    }
    for (const models::Matmul& product : bare.work.input_gradient.matmuls) {
      const models::PartTraits& traits = models::traits_of(product.part);
      seconds += traits.half == half && !traits.column_parallel ? products({product}) : 0;
    }
    return seconds + compute.other_weight +
           (half == models::Half::kAttention
                ? core_attention(bare.work.input_gradient, Pass::kBackward,
                                 attention_share(job_, plan))
                : 0);
  };
  for (const models::Half half : {models::Half::kAttention, models::Half::kMlp}) {
    if (half == models::Half::kMlp && moe) {
      continue;
    }
    const Bare::Beside& compute = bare.beside[static_cast<std::size_t>(half)];
    PassTimes& backward = times.input_gradient;
    const bool reads = job_.framework.regather_in_backward && reads_column_input(job_, half);
    const double again = reads ? gather_of(half) : 0;
    const double reduced =
        collectives_.time(Collective::kReduceScatter, group, bytes * input_share(half));
    if (split) {
      // The input is gathered with the weight gradients, beside the one before it.
      const double left = beside(again, compute.other_weight, backward);
      times.weight_tensor += left;
      backward.tensor += left + reduced;
    } else if (overlap) {
      backward.tensor += beside(again, until_read(half, compute), backward) +
                         beside(reduced, compute.column_weight, backward);
    } else {
      backward.tensor += again + reduced;
    }
  }
  if (moe) {
    const SharedExperts shared = shared_experts(plan, bare);
    times.forward.tensor += shared.gather + shared.scatter;
    times.input_gradient.tensor += shared.gather + shared.scatter;
    const double left =
        beside(shared.gather, split ? 0 : shared.input_gradients, times.input_gradient);
    times.input_gradient.tensor += left;
    times.weight_tensor += split ? left : 0;
  }
}

// Tensor ranks share this project's experts that every token visits, which read all tokens of the
// group: a half of their own beside the routed experts'.
LayerTimer::SharedExperts LayerTimer::shared_experts(const Plan& plan, const Bare& bare) const {
  SharedExperts shared;
  const bool own = job_.framework.implementation == models::Implementation::kTrireme;
  const auto seconds = [&](const std::vector<models::Matmul>& matmuls, models::Part up,
                           models::Part down, bool weights) {
    double sum = 0;
    for (const models::Matmul& matmul : matmuls) {
      sum += matmul.part == up || matmul.part == down ? product(matmul, weights) : 0;
    }
    return sum;
  };
  using models::Part;
  const models::LayerWork& work = bare.work;
  shared.routed_weights =
      seconds(work.weight_gradient.matmuls, Part::kExpertsUp, Part::kExpertsDown, true);
  if (!own || job_.model.moe->shared_ffn == 0) {
    return shared;
  }
  if (plan.tensor > 1 && plan.sequence_parallel) {
    const GroupShape group = collectives_.group(plan, Axis::kTensor);
    const double bytes = stream_bytes(job_, plan);
    shared.gather = collectives_.time(Collective::kAllGather, group, bytes);
    shared.scatter = collectives_.time(Collective::kReduceScatter, group, bytes);
  }
  shared.input_gradients =
      seconds(work.input_gradient.matmuls, Part::kSharedUp, Part::kSharedDown, false);
  shared.weights = seconds(work.weight_gradient.matmuls, Part::kSharedUp, Part::kSharedDown, true);
  shared.forward =
      shared.gather + seconds(work.forward.matmuls, Part::kSharedUp, Part::kSharedUp, false);
  shared.backward = shared.gather + shared.input_gradients + shared.scatter;
  return shared;
}

// Two all-to-alls a direction: dispatch and combine (3.5); with experts split over tensor ranks a
// gather and a reduce-scatter of the tokens too. Those ranks gather what came to each, or, in this
// project's runtime, their tokens before each sends them all.
LayerTimer::ExpertExchanges LayerTimer::expert_exchanges(const Plan& plan,
                                                         std::int64_t layer) const {
  const models::MixtureOfExperts& moe = *job_.model.moe;
  ExpertExchanges exchanges;
  const double tokens = static_cast<double>(plan.micro_batch * timed_sequence(job_, plan)) /
                        static_cast<double>(plan.context * plan.tensor);
  const double once = kActivationBytes * tokens * static_cast<double>(job_.model.hidden);
  const auto copies = static_cast<double>(moe.experts_per_token);
  const std::int64_t inner = plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor;
  exchanges.of_runtime = job_.framework.implementation == models::Implementation::kTrireme &&
                         modelled_part(job_, plan, layer).empty();
  const bool gathers_first = exchanges.of_runtime;
  if (plan.expert > 1) {
    // Experts are spread over the ranks outside tensor and pipeline parallelism, nearest first.
    const double sent = once * (gathers_first ? static_cast<double>(inner) : 1.0);
    const GroupShape group = topologies::group_shape(job_.cluster, plan.expert, inner);
    const auto exchange = [&](bool to_experts) {
      const double copied = exchanged_copies(job_, plan, to_experts);
      return collectives_.time(Collective::kAllToAll, group, sent * copied);
    };
    exchanges.there = exchange(true);
    exchanges.back = exchange(false);
  }
  if (inner > 1) {
    const GroupShape group = topologies::group_shape(job_.cluster, inner, 1);
    const double whole = once * (gathers_first ? 1.0 : copies) * static_cast<double>(inner);
    exchanges.gather = collectives_.time(Collective::kAllGather, group, whole);
    exchanges.scatter = collectives_.time(Collective::kReduceScatter, group, whole);
  }
  return exchanges;
}

// This project's runtime has the experts that every token visits computed beside the exchange that
// leaves, and the routed experts' weight gradients beside the one that returns (planner/lower/
// experts.cc).
void LayerTimer::add_expert(const Plan& plan, std::int64_t layer, const Bare& bare,
                            LayerTimes& times) const {
  const ExpertExchanges exchanges = expert_exchanges(plan, layer);
  const double rest = exchanges.gather + exchanges.scatter;
  times.forward.expert += exchanges.back + rest;
  times.input_gradient.expert += rest;
  if (exchanges.of_runtime) {
    const bool split = splits_backward(plan);
    const SharedExperts shared = shared_experts(plan, bare);
    times.forward.expert += beside(exchanges.there, shared.forward, times.forward);
    times.input_gradient.expert +=
        beside(exchanges.there, shared.backward + (split ? 0 : shared.weights),
               times.input_gradient) +
        beside(exchanges.back, split ? 0 : shared.routed_weights, times.input_gradient);
  } else {
    times.forward.expert += exchanges.there;
    times.input_gradient.expert += exchanges.there + exchanges.back;
  }
  const PassPair host = expert_host_seconds(job_, fit_, plan.expert, op_.launch(1).value);
  times.forward.host += host.forward;
  times.input_gradient.host += host.backward;
}

// Forward and backward of two micro-batches run beside each other, so that all exchanges of a layer
// have all its kernels to hide behind, in the share of passes that are not alone.
void LayerTimer::overlap_exchanges(double steady, LayerTimes& times) const {
  PassTimes* passes[] = {&times.forward, &times.input_gradient, &times.recompute};
  double exchange = 0;
  double compute = times.weight_gradient;
  for (const PassTimes* pass : passes) {
    exchange += pass->expert;
    compute += pass->kernels;
  }
  if (exchange <= 0) {
    return;
  }
  const double beside = exposed_exchange(fit_, exchange, compute) / exchange;
  const double share = steady * beside + 1 - steady;
  for (PassTimes* pass : passes) {
    pass->hidden += steady * pass->expert * std::min(1.0, compute / exchange);
    pass->expert *= share;
  }
}

// Vocabulary-parallel embedding and head (3.1), and the three all-reduces of the loss over tensor
// ranks.
void LayerTimer::add_head_collectives(const Plan& plan, const Bare& bare, LayerTimes& embedding,
                                      LayerTimes& head) const {
  if (plan.tensor <= 1) {
    return;
  }
  const GroupShape group = collectives_.group(plan, Axis::kTensor);
  const double bytes = stream_bytes(job_, plan);
  const double scalars = 4 * bytes / (kActivationBytes * static_cast<double>(job_.model.hidden));
  // Once more for each extra prediction module, whose logits are the shared head's too.
  const auto heads = static_cast<double>(1 + job_.model.multi_token_layers);
  const double loss = heads * 3 * collectives_.time(Collective::kAllReduce, group, scalars);
  head.forward.tensor += loss;
  const bool overlap =
      overlaps_tensor_backward(job_.framework, plan.sequence_parallel) && !splits_backward(plan);
  const double input = products(bare.work.input_gradient.matmuls);
  const auto behind = [&](double communication, double compute) {
    return overlap ? beside(communication, compute, head.input_gradient) : communication;
  };
  if (!plan.sequence_parallel) {
    const double reduce = collectives_.time(Collective::kAllReduce, group, bytes);
    embedding.forward.tensor += reduce;
    head.input_gradient.tensor += behind(heads * reduce, bare.times.weight_gradient);
    return;
  }
  const double gather = collectives_.time(Collective::kAllGather, group, bytes);
  const double scatter = collectives_.time(Collective::kReduceScatter, group, bytes);
  embedding.forward.tensor += scatter;
  embedding.input_gradient.tensor += trains_table(job_.training) ? gather : 0;
  head.forward.tensor += heads * gather;
  head.input_gradient.tensor +=
      job_.framework.regather_in_backward ? behind(heads * gather, input) : 0;
  head.input_gradient.tensor += behind(heads * scatter, bare.times.weight_gradient);
}

}  // namespace trireme::planner
