// What TimeModel remembers, for the files that define it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "planner/cost/behaviour_fit.h"
#include "planner/cost/collectives.h"
#include "planner/cost/data_parallel_time.h"
#include "planner/cost/flat_map.h"
#include "planner/cost/interval.h"
#include "planner/cost/layer_times.h"
#include "planner/cost/offload_cost.h"
#include "planner/cost/pipeline_time.h"
#include "planner/cost/time.h"
#include "planner/plan/host_counts.h"
#include "planner/plan/schedule_times.h"
#include "planner/plan/stages.h"
#include "topologies/node_groups.h"

namespace trireme::planner {

// Where the tensor and context ranks of a bound stand: `inner` ranks of other axes inside the first
// of their axes, `between` others between them.
struct LayerPlacement {
  std::int64_t inner = 1, between = 1;
  bool tensor_first = true;
};

// Of a rank's layers, those of a chunk at one place, and how many neighbouring places are like it.
struct ChunkShare {
  double share = 0, places = 1;
  friend bool operator==(const ChunkShare&, const ChunkShare&) = default;
};

// Pipeline ranks that hold the same chunks are one class.
struct RankClass {
  std::vector<std::int64_t> layers;      // by layer kind
  std::vector<std::int64_t> recomputed;  // of them, in whole-layer recompute by count
  bool embedding = false, head = false;
  std::uint32_t groups = 0;  // of unlike nodes that the rank is on, a bit each; 0: all are alike
  std::vector<ChunkShare> chunks;  // by place, the first and the last alone
  std::int64_t count = 0;
  std::int64_t last_rank = 0;
  std::vector<std::int64_t> before, after;  // by class: its ranks before and after last_rank
  friend bool same(const RankClass& a, const RankClass& b) {
    return a.layers == b.layers && a.recomputed == b.recomputed && a.embedding == b.embedding &&
           a.head == b.head && a.groups == b.groups && a.chunks == b.chunks;
  }
};

// Seconds of one micro-batch through all chunks of one rank, by category.
struct RankTimes {
  double forward = 0, input_gradient = 0, weight_gradient = 0, recompute = 0;  // kernels
  double tensor_forward = 0, tensor_backward = 0, context = 0, expert = 0;
  double weight_tensor = 0;  // of tensor_backward
  double context_forward = 0, expert_forward = 0;
  double host_forward = 0, host_backward = 0;  // time to issue the pass
  double host_weight = 0;                      // of host_backward: the weight gradients
  double host_kernels = 0;                     // of host_backward: without what collectives add
  double host_wait_forward = 0, host_wait_backward = 0;
  double repeated = 0, repeated_host = 0;  // of the backward: recompute with its collectives
  double added_by_recompute = 0;           // to both passes, waits for the host included
  double hidden = 0;
  double embedding = 0, head = 0;  // of both passes: the ends of the model
  double flop = 0, recomputed_flop = 0;
  [[nodiscard]] double forward_total() const {
    return forward + tensor_forward + context_forward + expert_forward + host_wait_forward;
  }
  // Of the backward, what a split one puts off: the host's share of it too.
  [[nodiscard]] double weight_pass() const {
    const double share = host_kernels > 0 ? host_weight / host_kernels : 0;
    return weight_gradient + weight_tensor + share * host_wait_backward;
  }
  [[nodiscard]] double backward_total() const {
    return input_gradient + weight_gradient + recompute + tensor_backward +
           (context - context_forward) + (expert - expert_forward) + host_wait_backward;
  }
};

// What a rank of a class does, whatever its data-parallel groups are.
struct RankWork {
  RankTimes times;
  DataParallelInput in;
  double before_message = 0;  // see StageTotals
};

// What a step takes of all ranks: sums over them, and the ones that set its length.
struct StepRanks {
  StageTotals totals;
  const RankTimes* slowest = nullptr;  // of the rank whose micro-batch takes longest
  double slowest_cycle = -1;
  double slowest_data = 0;  // exposed gathers and reductions of each of its micro-batches
  double slowest_sums = 0;  // their casts and sums, among the compute
  DataParallelTime data;    // of the rank that ends its data parallel work last
  double data_cost = -1;
  double late_after = 0;  // of it: what the ranks behind that one take longer in the last backward
  double parameters = 0;  // trained, of the rank that holds most
  double stepped = 0;     // of them, this rank's share
  double gathered = 0;    // all, this rank's share, in elements of the compute type
  double flop = 0, recomputed_flop = 0;
};

struct TimeModel::State {
  explicit State(const Job& job_in)
      : job(job_in),
        fit(behaviour_fit(job)),
        counts(host_counts_of(job.framework)),
        interval(interval_of(job)),
        kinds(layer_kinds(job)),
        collectives(job.cluster, job.profile),
        layers(job, fit, collectives),
        op(job.cluster, job.profile),
        data_parallel(job, fit, collectives, state_rate(job, op)) {
    if (job.offload.any()) {
      node_host = host_of(job);
    }
    const models::Transformer& m = job.model;
    embedding_parameters = static_cast<double>(models::embedding_parameter_count(m));
    head_parameters = static_cast<double>(models::head_parameter_count(m) +
                                          models::final_norm_parameter_count(m));
    for (std::size_t group = 0; group < job.cluster.groups.size(); ++group) {
      group_timers.push_back(std::make_unique<GroupTimer>(job_on(job, group), fit));
    }
  }
  static Job job_on(Job job, std::size_t group) {
    job.cluster = topologies::viewed_from(job.cluster, group);
    return job;
  }

  // What an order of axes decides: orders of a plan that place these alike take as long.
  struct Placed {
    topologies::GroupShape shard, replica, pair, tensor, context, ends;  // soon told apart
    friend bool operator==(const Placed&, const Placed&) = default;
  };
  // What plans with the same axes have in common. The last of many is kept.
  struct AxesKey {
    std::int64_t tensor = 0, pipeline = 0, context = 0, expert = 0, expert_tensor = 0, sharded = 0,
                 replicas = 0;
    std::array<Axis, 5> order{};
    Sharding sharding = Sharding::kNone;
    bool reshards = false, prediction_apart = false;
    friend bool operator==(const AxesKey&, const AxesKey&) = default;
  };
  struct OfAxes {
    AxesKey key;
    Placed placed;
    DataParallelTimer::OfPlan data;
  };

  // Of an order of axes a layer's collectives see the strides of tensor and context only.
  struct Strides {
    std::int64_t tensor = 0, context = 0;
    friend bool operator==(const Strides&, const Strides&) = default;
  };

  struct LayerSetKey;
  void turn_to(const Plan& plan);  // forgets what is kept of another plan
  OfAxes& of_axes(const Plan& plan);
  [[nodiscard]] Placed place(const Plan& plan, const DataParallelTimer::Groups& groups);
  [[nodiscard]] Strides strides_of(const Plan& plan);
  [[nodiscard]] LayerSetKey layer_key(const Plan& plan);
  [[nodiscard]] LayerSetKey layers_of(const Plan& plan) const;  // wherever they are placed
  bool nearest_is_fastest(const Plan& plan);
  const std::vector<LayerPlacement>& fastest_placements(const Plan& plan);
  void drop_slower(const Plan& plan, std::vector<LayerPlacement>& placements);
  void place_fastest(const LayerPlacement& placement, const Plan& plan, Plan& here) const;
  const LayerSet& layer_set(const Plan& plan);
  const LayerSet& layer_set(const Plan& plan, const Strides& strides);
  // On the group of the rank's unlike nodes that takes longest.
  const LayerSet& layer_set(const Plan& plan, const RankClass& rank);
  // On the cards of one group of unlike nodes. `key`: layer_key of the plan.
  const LayerSet& group_set(std::size_t group, const Plan& plan, const LayerSetKey& key);
  bool nearest_is_fastest_on_groups(const Plan& plain);
  const std::vector<RankClass>& classes(const Plan& plan);
  [[nodiscard]] std::vector<RankClass> split(const Plan& plan) const;
  void add_chunk(const Plan& plan, const Chunk& chunk, RankClass& rank) const;
  // One rank, of which `chunks` are all chunks of the plan.
  [[nodiscard]] RankClass contents_of(const Plan& plan, const std::vector<Chunk>& chunks,
                                      std::int64_t rank) const;
  [[nodiscard]] RankTimes rank_times(const Plan& plan, const LayerSet& set,
                                     const RankClass& rank) const;
  void add_unit_hosts(const Plan& plan, const RankClass& rank, RankTimes& times) const;
  void set_trained_shares(const Plan& plan, const RankClass& rank, std::int64_t unit,
                          DataParallelInput& in) const;
  [[nodiscard]] DataParallelInput data_input(const Plan& plan, const RankClass& rank,
                                             const RankTimes& times, const LayerSet& ends) const;
  [[nodiscard]] double before_message(const Plan& plan, const RankClass& rank,
                                      const RankTimes& times) const;
  // `alike`: the layers of every rank, or nothing where nodes are unlike.
  void set_work(const Plan& plan, const LayerSet* alike, std::vector<RankWork>& work);
  const std::vector<RankWork>& ranks_work(const Plan& plan, const Placed& placed);
  [[nodiscard]] StepRanks step_ranks(const Plan& plan, const HopTimes& hop_times, OfAxes& of);
  void time_step(const Plan& plan, OfAxes& of, TimeEstimate& out);
  double sharded_bound(const Plan& plan, OfAxes& of);
  void add_to_bound(const RankClass& rank, const RankTimes& times, double before_message,
                    const DataParallelTime& data, StageTotals& totals);
  [[nodiscard]] HopTimes hop(const Plan& plan, const Placed& placed);
  [[nodiscard]] double bottleneck(const Plan& plan, const std::vector<RankClass>& classes);
  [[nodiscard]] std::vector<PassSeconds> chunk_seconds(const Plan& plan,
                                                       const std::vector<RankClass>& ranks);
  [[nodiscard]] double v_seconds(const Plan& plan, const std::vector<RankClass>& ranks,
                                 const HopTimes& hop);
  [[nodiscard]] double seconds_in_turn(const Plan& plan, const std::vector<RankClass>& classes);
  [[nodiscard]] double split_bottleneck(const Plan& plan,
                                        const std::vector<RankClass>& classes) const;
  void add_offload(const Plan& plan, const StepRanks& step, TimeItems& items) const;
  double speed_of_stage(const Plan& plan, std::int64_t stage);
  [[nodiscard]] double tied_exchange(const Plan& plan, const Placed& placed);
  [[nodiscard]] bool predicts(const RankClass& rank) const;  // has extra prediction modules
  [[nodiscard]] double step_host_seconds(const Plan& plan);
  [[nodiscard]] double other_host_seconds(const Plan& plan, const RankTimes& rank,
                                          double slower) const;

  Job job;
  BehaviourFit fit;
  const HostCounts* counts;  // nothing: kernels are counted
  Interval interval;
  LayerKinds kinds;
  Collectives collectives;
  LayerTimer layers;
  topologies::OpCost op;
  HostMachine node_host;  // where something is offloaded
  DataParallelTimer data_parallel;
  double embedding_parameters = 0, head_parameters = 0;
  struct NearestKey {
    std::int64_t tensor = 1, context = 1, micro_batch = 1, sequence_parallel = 0;
    friend bool operator==(const NearestKey&, const NearestKey&) = default;
  };
  struct LayerSetKey {
    std::int64_t tensor = 1, context = 1, expert = 1, expert_tensor = 0, micro_batch = 1;
    std::int64_t casts = 0;  // casts_key of the plan
    Strides strides;
    std::uint16_t recompute_modules = 0, recompute = 0;
    std::uint8_t sequence_parallel = 0, fp32_experts = 0;
    std::uint8_t splits_backward = 0, overlapped_experts = 0;
    friend bool operator==(const LayerSetKey&, const LayerSetKey&) = default;
  };
  struct SplitKey {
    std::int64_t pipeline = 1, virtual_pipeline = 1, in_v = 0, recompute_layers = 0;
    std::int64_t split = 0, prediction_apart = 0;  // of plans with stage_layers
    friend bool operator==(const SplitKey&, const SplitKey&) = default;
  };
  FlatMap<NearestKey, bool> nearest_fastest;
  FlatMap<LayerSetKey, std::vector<LayerPlacement>> fastest;  // by layers_of
  FlatMap<LayerSetKey, LayerSet> sets;
  // Layers on the cards of one group, where nodes are unlike.
  struct GroupTimer {
    GroupTimer(Job job_in, const BehaviourFit& fit)
        : job(std::move(job_in)),
          collectives(job.cluster, job.profile),
          layers(job, fit, collectives) {}
    Job job;
    Collectives collectives;
    LayerTimer layers;
    FlatMap<LayerSetKey, LayerSet> sets;
  };
  std::vector<std::unique_ptr<GroupTimer>> group_timers;
  FlatMap<SplitKey, std::vector<RankClass>> splits;
  // On unlike nodes, where no key says them: of the plan at hand.
  std::vector<RankClass> unlike_split;
  std::vector<RankWork> unlike_work;
  std::vector<std::unique_ptr<OfAxes>>
      axes;         // by hash; made when first asked for, since one plan needs one
  Plan timed_plan;  // of `timed`, but for its order
  std::vector<std::pair<Placed, TimeEstimate>> timed;
  std::vector<std::pair<Placed, double>> bounded;  // sharded_bound of timed_plan
  // Of timed_plan, by class: of each placement of its layers. Those behind the count are of earlier
  // plans: their memory is used again.
  std::vector<std::pair<Strides, std::vector<RankWork>>> worked;
  std::size_t worked_count = 0;
  struct StageSeconds {
    double forward, backward;
    double exchange;                 // of blocking sends and receives, a micro-batch
    double weight;                   // of backward: what a split one puts off
    double before_message;           // of a chunk's backward, see StageTotals
    double embedding = 0, head = 0;  // of forward and backward
    double turn = 0, in_turn = 0;    // of seconds_in_turn: at one place, the sum so far
    [[nodiscard]] double body() const { return forward + backward - embedding - head; }
  };
  std::vector<StageSeconds> stage_seconds;  // by class, of the plan at hand
  // Plan::stage_layers by number, from 1; plans that follow each other mostly have the same.
  [[nodiscard]] std::int64_t number_of_split(const std::vector<std::int64_t>& stage_layers);
  using SplitNumbers = std::map<std::vector<std::int64_t>, std::int64_t>;
  SplitNumbers split_numbers;
  const SplitNumbers::value_type* last_split = nullptr;
};

}  // namespace trireme::planner
