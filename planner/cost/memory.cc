#include "planner/cost/memory.h"

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/fields_hash.h"
#include "planner/cost/device_memory.h"
#include "planner/cost/in_flight.h"
#include "planner/cost/layer_times.h"
#include "planner/cost/offload_cost.h"
#include "planner/cost/own_memory.h"
#include "planner/cost/reserved_memory.h"
#include "planner/cost/stage_contents.h"
#include "planner/cost/stage_memory.h"
#include "planner/plan/shape.h"
#include "planner/plan/stage_groups.h"
#include "topologies/node_groups.h"

namespace trireme::planner {

namespace {

// Everything that layer memory depends on.
struct LayerKey {
  std::int64_t tensor = 1, context = 1, expert = 1, expert_tensor = 0, micro_batch = 1;
  std::uint16_t recompute_modules = 0, recompute = 0, sequence_parallel = 0, sharded = 0;
  friend bool operator==(const LayerKey&, const LayerKey&) = default;
};

LayerKey layer_key(const Plan& plan) {
  return {.tensor = plan.tensor,
          .context = plan.context,
          .expert = plan.expert,
          .expert_tensor = plan.expert_tensor,
          .micro_batch = plan.micro_batch,
          .recompute_modules = plan.recompute_modules,
          .recompute = static_cast<std::uint16_t>(plan.recompute),
          .sequence_parallel = static_cast<std::uint16_t>(plan.sequence_parallel ? 1 : 0),
          .sharded = static_cast<std::uint16_t>(plan.sharding == Sharding::kNone ? 0 : 1)};
}

struct SplitKey {
  std::int64_t pipeline = 1, virtual_pipeline = 1, in_v = 0;
  friend bool operator==(const SplitKey&, const SplitKey&) = default;
};

struct ExplicitSplit {
  std::int64_t pipeline = 0, virtual_pipeline = 0;
  bool prediction_apart = false, in_v = false;
  std::vector<std::int64_t> stage_layers;
  friend auto operator<=>(const ExplicitSplit&, const ExplicitSplit&) = default;
};

bool is_of(const ExplicitSplit& split, const Plan& plan) {
  return split.pipeline == plan.pipeline && split.virtual_pipeline == plan.virtual_pipeline &&
         split.prediction_apart == plan.prediction_apart && split.in_v == is_in_v(plan.schedule) &&
         split.stage_layers == plan.stage_layers;
}

// `communicators`: GiB of the plan's.
double capacity_gib(const Job& job, Bytes memory, double communicators) {
  // The driver keeps 0.7 % of what nvidia-smi shows (PyTorch's own messages: 79.1 of 79.65 GiB on
  // an H100, 31.75 of 32 on a V100); the rest is the allocator's and the context's.
  constexpr double kUsable = 0.993;
  return kUsable * to_gib(memory) - job.framework.context_gib - communicators;
}

// Totals, band and verdict of the stages in `out`, on cards of so much memory.
void conclude_on(const Job& job, const Plan& plan, Bytes memory, double host_room_gib,
                 MemoryEstimate& out) {
  out.peak_stage = 0;
  out.allocated_gib = 0;
  for (std::size_t rank = 0; rank < out.stages.size(); ++rank) {
    const double total = out.stages[rank].items.total();
    if (total > out.allocated_gib) {
      out.allocated_gib = total;
      out.peak_stage = rank;
    }
  }
  const double communicators = communicator_gib(job, plan);
  out.capacity_gib = capacity_gib(job, memory, communicators);
  fill_reserved(job, plan, out);
  out.device_gib = out.reserved_gib + job.framework.context_gib + communicators;
  double host_bytes = 0;
  for (const StageMemory& stage : out.stages) {
    host_bytes = std::max(host_bytes, stage.host_bytes);
  }
  out.host_gib = job.offload.any() ? host_memory_gib(job, plan, host_bytes) : 0;
  out.host_capacity_gib = host_room_gib;
  out.fit = out.reserved_high_gib <= out.capacity_gib  ? Fit::kFits
            : out.reserved_low_gib <= out.capacity_gib ? Fit::kAtRisk
                                                       : Fit::kNo;
  if (out.host_gib > out.host_capacity_gib) {
    out.fit = Fit::kNo;
  }
}

// Where nodes are unlike a stage is judged by its own cards; the one with the least room to spare
// speaks for all.
void conclude(const Job& job, const Plan& plan, double host_room_gib, MemoryEstimate& out) {
  if (!topologies::has_unlike_nodes(job.cluster)) {
    conclude_on(job, plan, job.cluster.gpu.memory, host_room_gib, out);
    return;
  }
  MemoryEstimate fullest;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t rank = 0; rank < out.stages.size(); ++rank) {
    const std::uint32_t groups =
        groups_of_stage(job.cluster, plan, static_cast<std::int64_t>(rank));
    Bytes memory(std::numeric_limits<std::int64_t>::max());
    for (std::size_t g = 0; g < job.cluster.groups.size(); ++g) {
      memory =
          (groups >> g & 1U) != 0 ? std::min(memory, job.cluster.groups[g].gpu.memory) : memory;
    }
    MemoryEstimate one;
    one.stages = {out.stages[rank]};
    conclude_on(job, plan, memory, host_room_gib, one);
    if (const double room = one.capacity_gib - one.reserved_high_gib; room < least) {
      least = room;
      fullest = std::move(one);
      fullest.peak_stage = rank;
    }
  }
  fullest.stages = std::move(out.stages);
  out = std::move(fullest);
}

// What plans that differ only in over whom their states are sharded have in common; search asks for
// those one after the other.
struct HeldStages {
  Plan plan;
  bool fullest_only = false;  // without those that is_no_fuller tells
  const RankLayers* layers = nullptr;
  std::vector<std::pair<std::int64_t, StageContents>> stages;  // by rank

  // Takes over what they may differ in. False: the rest differs too, and the stages are not its.
  [[nodiscard]] bool turn_to(const Plan& asked, bool fullest) {
    plan.sharded = asked.sharded;
    plan.replicas = asked.replicas;
    plan.reshard_after_forward = asked.reshard_after_forward;
    plan.order = asked.order;
    return !stages.empty() && fullest_only == fullest && plan == asked;
  }
};

constexpr double kEveryStage = std::numeric_limits<double>::infinity();

}  // namespace

struct MemoryModel::State {
  explicit State(const Job& given)
      : job(given), host_room_gib(job.offload.any() ? host_of(job).memory_gib : 0) {}

  const Job job;
  const double host_room_gib;  // of a node, for what is offloaded
  std::unordered_map<LayerKey, RankLayers, FieldsHash<LayerKey>> layers;
  std::unordered_map<SplitKey, StageSplit, FieldsHash<SplitKey>> splits;
  using ExplicitSplits = std::map<ExplicitSplit, StageSplit>;
  ExplicitSplits explicit_splits;  // of plans with stage_layers, which mostly have the last one's
  const ExplicitSplits::value_type* last_split = nullptr;
  OwnMemory own;
  HeldStages held;
  Plan known_plan;  // of `known`, but for its order, which memory does not depend on
  MemoryEstimate known;

  const RankLayers& layers_of(const Plan& plan);
  const StageSplit& split_of(const Plan& plan);
  void count(const Plan& plan, MemoryEstimate& out);
  void hold_stages(const StageContext& context, bool fullest_only);
  // No more stages than tell that the plan does not fit: one with more than `enough_gib`.
  void count_stages(const Plan& plan, bool fullest_only, double enough_gib, MemoryEstimate& out);
  void count_peak(const Plan& plan, double enough_gib, MemoryEstimate& out);
};

const RankLayers& MemoryModel::State::layers_of(const Plan& plan) {
  const LayerKey key = layer_key(plan);
  const auto found = layers.find(key);
  if (found != layers.end()) {
    return found->second;
  }
  return layers.emplace(key, rank_layers(job, plan)).first->second;
}

const StageSplit& MemoryModel::State::split_of(const Plan& plan) {
  if (!plan.stage_layers.empty()) {
    if (last_split == nullptr || !is_of(last_split->first, plan)) {
      ExplicitSplit key{plan.pipeline, plan.virtual_pipeline, plan.prediction_apart,
                        is_in_v(plan.schedule), plan.stage_layers};
      auto found = explicit_splits.find(key);
      if (found == explicit_splits.end()) {
        found = explicit_splits.emplace(std::move(key), stage_split(job, plan)).first;
      }
      last_split = &*found;
    }
    return last_split->second;
  }
  const SplitKey key{plan.pipeline, plan.virtual_pipeline, is_in_v(plan.schedule) ? 1 : 0};
  const auto found = splits.find(key);
  if (found != splits.end()) {
    return found->second;
  }
  return splits.emplace(key, stage_split(job, plan)).first->second;
}

MemoryModel::MemoryModel(const Job& job) : state_(std::make_unique<State>(job)) {}
MemoryModel::~MemoryModel() = default;
MemoryModel::MemoryModel(MemoryModel&&) noexcept = default;
MemoryModel& MemoryModel::operator=(MemoryModel&&) noexcept = default;

double MemoryModel::stage_gib(const Plan& plan, std::int64_t rank) {
  State& s = *state_;
  const std::vector<ChunkLayers> split = chunk_layers_of(s.job, plan, rank);
  const StageMemory stage =
      counts_own_memory(s.job, plan)
          ? own_stage_memory(s.job, plan, split, rank)
          : stage_memory(stage_context(s.job, plan, s.layers_of(plan)), split, rank);
  return stage.items.total();
}

namespace {

// Of stages with the same chunks, one behind the other, the first holds most in flight. Of
// PyTorch's states those are compared that wait for the first backward of as many chunks: before it
// a chunk has no gradients.
bool is_no_fuller(const Job& job, const Plan& plan, const StageSplit& split, std::int64_t rank) {
  if (!split.as_before[static_cast<std::size_t>(rank)]) {
    return false;
  }
  if (!has_torch_states(job)) {
    return true;
  }
  const RankInFlight here(plan, rank);
  const RankInFlight before(plan, rank - 1);
  for (std::int64_t chunk = 0; chunk < plan.virtual_pipeline; ++chunk) {
    if (here.at(chunk).all_of(plan.micro_batches) != before.at(chunk).all_of(plan.micro_batches)) {
      return false;
    }
  }
  return true;
}

}  // namespace

void MemoryModel::State::hold_stages(const StageContext& context, bool fullest_only) {
  const Plan& plan = *context.plan;
  const StageSplit& split = split_of(plan);
  held.plan = plan;
  held.fullest_only = fullest_only;
  held.layers = context.layers;
  held.stages.clear();
  for (std::int64_t rank = 0; rank < plan.pipeline; ++rank) {
    if (!fullest_only || !is_no_fuller(job, plan, split, rank)) {
      held.stages.emplace_back(rank, contents_of(context, split.chunks, rank));
    }
  }
}

void MemoryModel::State::count_stages(const Plan& plan, bool fullest_only, double enough_gib,
                                      MemoryEstimate& out) {
  const bool same = held.turn_to(plan, fullest_only);
  const StageContext context = stage_context(job, plan, same ? *held.layers : layers_of(plan));
  if (!same) {
    hold_stages(context, fullest_only);
  }
  out.stages.clear();
  for (const auto& [rank, contents] : held.stages) {
    out.stages.push_back(stage_memory(context, contents, rank));
    if (out.stages.back().items.total() > enough_gib) {
      break;
    }
  }
  conclude(job, plan, host_room_gib, out);
}

void MemoryModel::State::count(const Plan& plan, MemoryEstimate& out) {
  if (!counts_own_memory(job, plan)) {
    count_stages(plan, false, kEveryStage, out);
    return;
  }
  own.estimate(job, plan, split_of(plan), out.stages);
  conclude(job, plan, host_room_gib, out);
}

void MemoryModel::State::count_peak(const Plan& plan, double enough_gib, MemoryEstimate& out) {
  // Of a split backward, in a V and of micro-batches that enter at both ends another may.
  const bool first_is_fullest =
      !ends_with_weights(plan) && !runs_two_ways(job, plan) && !job.offload.any();
  if (topologies::has_unlike_nodes(job.cluster)) {
    count(plan, out);
  } else if (counts_own_memory(job, plan)) {
    own.estimate_peak(job, plan, split_of(plan), enough_gib, out.stages);
    conclude(job, plan, host_room_gib, out);
  } else if (first_is_fullest) {
    count_stages(plan, true, enough_gib, out);
  } else {
    count(plan, out);
  }
}

void MemoryModel::estimate_peak(const Plan& plan, MemoryEstimate& out) {
  state_->count_peak(plan, kEveryStage, out);
}

void MemoryModel::estimate_if_fits(const Plan& plan, MemoryEstimate& out) {
  const Job& job = state_->job;
  const double capacity = capacity_gib(job, job.cluster.gpu.memory, communicator_gib(job, plan));
  state_->count_peak(plan, most_that_fits_gib(job, capacity), out);
}

void MemoryModel::estimate(const Plan& plan, MemoryEstimate& out) {
  State& s = *state_;
  s.known_plan.order = plan.order;
  if (s.known.stages.empty() || !(s.known_plan == plan)) {
    s.count(plan, s.known);
    s.known_plan = plan;
  }
  out = s.known;
}

}  // namespace trireme::planner
