// What the ranks of a plan do in a micro-batch: seconds by category, and what their data-parallel
// time depends on. Orders of the axes that place layers alike share it.
#include <algorithm>
#include <numeric>

#include "planner/cost/adapters.h"
#include "planner/cost/host_wait.h"
#include "planner/cost/time_state.h"
#include "planner/cost/unit_launches.h"
#include "planner/cost/unit_layers.h"
#include "planner/plan/shape.h"
#include "topologies/node_groups.h"

namespace trireme::planner {

namespace {

// Of a layer's input gradients, what comes before its first weight gradient: the last product's.
constexpr double kBeforeGradients = 0.2;

void add_layers(const LayerTimes& layer, double count, double recomputed, bool every_layer,
                RankTimes& rank) {
  rank.forward += count * layer.forward.kernels;
  rank.input_gradient += count * layer.input_gradient.kernels;
  rank.weight_gradient += count * layer.weight_gradient;
  rank.tensor_forward += count * layer.forward.tensor;
  rank.tensor_backward += count * layer.input_gradient.tensor;
  rank.weight_tensor += count * layer.weight_tensor;
  rank.context_forward += count * layer.forward.context;
  rank.context += count * (layer.forward.context + layer.input_gradient.context);
  rank.expert_forward += count * layer.forward.expert;
  rank.expert += count * (layer.forward.expert + layer.input_gradient.expert);
  rank.host_forward += count * layer.forward.host;
  rank.hidden += count * (layer.forward.hidden + layer.input_gradient.hidden);
  rank.host_weight += count * layer.weight_host;
  rank.host_kernels += count * layer.kernels_host;
  rank.flop += count * 3 * layer.forward_flop;
  const double again = every_layer ? count : recomputed;
  rank.host_backward += count * layer.input_gradient.host + again * layer.recompute.host;
  rank.host_kernels += again * layer.recompute.host;
  rank.recompute += again * layer.recompute.kernels;
  rank.tensor_backward += again * layer.recompute.tensor;
  rank.context += again * layer.recompute.context;
  rank.expert += again * layer.recompute.expert;
  rank.repeated += again * layer.recompute.gpu();
  rank.repeated_host += again * layer.recompute.host;
  rank.recomputed_flop += again * layer.recompute_flop;
}

// Both passes, without recompute.
double seconds_of(const LayerTimes& times) {
  return times.forward.gpu() + times.input_gradient.gpu() + times.weight_gradient;
}

// Ranks that a layer's routed experts are split over.
double expert_ranks_of(const Plan& plan) {
  return static_cast<double>(plan.expert) *
         static_cast<double>(plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor);
}

}  // namespace

RankTimes TimeModel::State::rank_times(const Plan& plan, const LayerSet& set,
                                       const RankClass& rank) const {
  RankTimes times;
  const bool every_layer = plan.recompute != Recompute::kFull;
  for (std::size_t kind = 0; kind < set.kinds.size(); ++kind) {
    add_layers(set.kinds[kind], static_cast<double>(rank.layers[kind]),
               static_cast<double>(rank.recomputed[kind]), every_layer, times);
  }
  if (rank.embedding) {
    add_layers(set.embedding, 1, 0, true, times);
    times.embedding = seconds_of(set.embedding);
  }
  if (rank.head) {
    add_layers(set.head, 1, 0, true, times);
    times.head = seconds_of(set.head);
  }
  if (has_unit_hosts(job.framework, counts, plan.sharding) && spreads_units(job, plan)) {
    add_unit_hosts(plan, rank, times);
  }
  const auto count =
      static_cast<double>(std::accumulate(rank.layers.begin(), rank.layers.end(), std::int64_t{0}));
  if (counts != nullptr && plan.micro_batches > 1) {
    const double sums =
        op.launch(1).value * fit.host_factor *
        micro_batch_host(job, *counts, count,
                         plan.sharding >= Sharding::kGradients && plan.sharded * plan.context > 1);
    times.host_backward += sums;
    times.host_kernels += sums;
  }
  const auto waits = [&](double repeated, double repeated_host) {
    return host_waits({times.forward_total(), times.backward_total() - repeated},
                      {times.host_forward, times.host_backward - repeated_host}, plan.pipeline > 1,
                      job.framework);
  };
  const HostWaits all = waits(0, 0);
  if (times.repeated > 0) {
    const HostWaits once = waits(times.repeated, times.repeated_host);
    times.added_by_recompute =
        times.repeated + all.forward + all.backward - once.forward - once.backward;
  }
  times.host_wait_forward = all.forward;
  times.host_wait_backward = all.backward;
  // The ends wait for the host by what they have it issue.
  const auto waited = [&](const LayerTimes& end) {
    const auto share = [](double part, double whole) { return whole > 0 ? part / whole : 0; };
    return all.forward * share(end.forward.host, times.host_forward) +
           all.backward * share(end.input_gradient.host, times.host_backward);
  };
  times.embedding += rank.embedding ? waited(set.embedding) : 0;
  times.head += rank.head ? waited(set.head) : 0;
  return times;
}

// What is reduced and stepped where weights are frozen, and what a gathered one weighs. `unit`:
// layers of a unit.
void TimeModel::State::set_trained_shares(const Plan& plan, const RankClass& rank,
                                          std::int64_t unit, DataParallelInput& in) const {
  const Training& training = job.training;
  if (!training.has_adapters() && training.frozen_layers == 0) {
    return;
  }
  double trained = 0;
  double experts = 0;
  std::int64_t below = 0;
  const AdapterElements adapters = adapter_elements(
      job, {.tensor = plan.tensor,
            .expert = plan.expert,
            .expert_tensor = plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor});
  for (std::size_t kind = 0; kind < rank.layers.size(); ++kind) {
    const auto count = static_cast<double>(rank.layers[kind]);
    const bool sparse = kinds.expert_parameters[kind] > 0;
    if (kinds.first_layer[kind] < training.frozen_layers) {
      below += rank.layers[kind];
    } else if (training.has_adapters()) {
      trained += count * (sparse ? adapters.sparse_layer : adapters.dense_layer);
      experts += sparse ? count * adapters.experts : 0;
    } else {
      trained += count * kinds.dense_parameters[kind] / static_cast<double>(plan.tensor);
      experts += count * kinds.expert_parameters[kind] / expert_ranks_of(plan);
    }
  }
  const auto share = [](double part, double all) { return all > 0 ? part / all : 0; };
  // Chunks in turn are taken as alike: each has its part of what is trained.
  in.frozen_units = plan.virtual_pipeline > 1 ? 0 : static_cast<double>(below / unit);
  const double again = in.units / std::max(1.0, in.units - in.frozen_units);
  const double dense = in.dense_parameters - in.root_parameters;
  // A table that the frozen layers read is frozen with them, and a head that shares it.
  const bool ends = training.embeddings || !training.has_adapters();
  const double embedding = trains_table(training) ? in.embedding_parameters : 0;
  const bool shares = training.frozen_layers > 0 && job.model.tied_embeddings;
  const double head = ends && !shares ? in.root_parameters - in.embedding_parameters : 0;
  const bool one = run_sharding(job, plan).root_unit;  // embedding and head are one unit
  in.trained_of_unit = {
      one ? share(embedding + head, in.root_parameters) : share(embedding, in.embedding_parameters),
      again * share(trained, dense), head > 0 ? 1.0 : 0.0};
  in.trained_experts_of_unit = again * share(experts, in.expert_parameters);
  in.trained_share = share(trained + embedding + head, in.dense_parameters);
  in.trained_expert_share = share(experts, in.expert_parameters);
  if (training.has_adapters()) {
    in.gathered_share = frozen_bytes(training.base) / job.framework.parameter_bytes;
  }
}

DataParallelInput TimeModel::State::data_input(const Plan& plan, const RankClass& rank,
                                               const RankTimes& times, const LayerSet& ends) const {
  DataParallelInput in;
  const auto tensor = static_cast<double>(plan.tensor);
  std::int64_t layer_count = 0;
  for (std::size_t kind = 0; kind < rank.layers.size(); ++kind) {
    const auto count = static_cast<double>(rank.layers[kind]);
    layer_count += rank.layers[kind];
    in.dense_parameters += count * kinds.dense_parameters[kind] / tensor;
    in.expert_parameters += count * kinds.expert_parameters[kind] / expert_ranks_of(plan);
  }
  if (rank.embedding) {
    in.root_parameters += embedding_parameters / tensor;
    in.embedding_parameters = embedding_parameters / tensor;
    in.embedding_compute = ends.embedding.forward.gpu();
    in.embedding_backward = ends.embedding.input_gradient.gpu() + ends.embedding.weight_gradient;
  }
  if (rank.head && rank.embedding && job.model.tied_embeddings) {
    in.tied_head_parameters = in.embedding_parameters;
  } else if (rank.head) {
    in.root_parameters += head_parameters / tensor;
  }
  if (rank.head) {
    in.head_forward = ends.head.forward.gpu();
    in.head_input_gradient = ends.head.input_gradient.gpu();
    in.head_backward = in.head_input_gradient + ends.head.weight_gradient;
  }
  if (predicts(rank) && !rank.embedding && !job.model.tied_embeddings) {
    // A copy of the token table, which prediction modules read.
    in.root_parameters += embedding_parameters / tensor;
  }
  in.dense_parameters += in.root_parameters;
  const std::int64_t unit = layers_of_unit(
      job, plan, layer_count, kinds.dense_parameters.front() + kinds.expert_parameters.front());
  const std::int64_t units = (layer_count + unit - 1) / unit;
  in.units = static_cast<double>(units);
  in.unit_share = static_cast<double>(unit) / static_cast<double>(std::max(layer_count, unit));
  set_trained_shares(plan, rank, unit, in);
  in.forward = times.forward_total();
  in.backward = times.backward_total();
  const double waits = in.backward / std::max(in.backward - times.host_wait_backward, 1e-12);
  in.before_gradients = waits * (times.recompute + kBeforeGradients * times.input_gradient);
  in.weight_gradient = times.weight_pass();
  in.rank = rank.last_rank;
  const double kernels =
      times.forward + times.input_gradient + times.weight_gradient + times.recompute;
  in.kernel_share = kernels / std::max(in.forward + in.backward, 1e-12);
  return in;
}

// Of a chunk's backward, what its last layer repeats before it needs the gradient, the mean over
// layers. Where some layers repeat nothing, the last is one of them. Only this project's runtime
// does that: elsewhere a repeated forward is part of autograd's backward, which starts from the
// gradient (PyTorch's checkpoint, Megatron-Core's tensor_parallel/random.py CheckpointFunction);
// just the host, which runs ahead, has issued it by then.
double TimeModel::State::before_message(const Plan& plan, const RankClass& rank,
                                        const RankTimes& times) const {
  if (plan.recompute == Recompute::kFull && rank.recomputed != rank.layers) {
    return 0;
  }
  const bool own = job.framework.implementation == models::Implementation::kTrireme;
  const std::int64_t count =
      std::accumulate(rank.layers.begin(), rank.layers.end(), std::int64_t{0});
  return std::max(0.0, times.added_by_recompute - (own ? 0 : times.repeated)) /
         static_cast<double>(std::max(count, plan.virtual_pipeline));
}

void TimeModel::State::set_work(const Plan& plan, const LayerSet* alike,
                                std::vector<RankWork>& work) {
  work.clear();
  for (const RankClass& rank : classes(plan)) {
    const LayerSet& set = alike != nullptr ? *alike : layer_set(plan, rank);
    RankWork& one = work.emplace_back();
    one.times = rank_times(plan, set, rank);
    one.in = data_input(plan, rank, one.times, set);
    one.before_message = before_message(plan, rank, one.times);
  }
}

const std::vector<RankWork>& TimeModel::State::ranks_work(const Plan& plan, const Placed& placed) {
  if (topologies::has_unlike_nodes(job.cluster)) {
    set_work(plan, nullptr, unlike_work);
    return unlike_work;
  }
  const Strides strides{placed.tensor.stride, placed.context.stride};
  for (std::size_t i = 0; i < worked_count; ++i) {
    if (worked[i].first == strides) {
      return worked[i].second;
    }
  }
  worked.resize(std::max(worked.size(), worked_count + 1));
  auto& [of, work] = worked[worked_count++];
  of = strides;
  set_work(plan, &layer_set(plan, strides), work);
  return work;
}

}  // namespace trireme::planner
