#include "planner/cost/memory.h"

#include <array>
#include <cstdint>
#include <unordered_map>

#include "planner/cost/device_memory.h"
#include "planner/cost/own_memory.h"
#include "planner/cost/reserved_memory.h"
#include "planner/cost/stage_memory.h"

namespace trireme::planner {

namespace {

// Everything that layer memory depends on.
struct LayerKey {
  std::array<std::int64_t, 6> values;
  friend bool operator==(const LayerKey&, const LayerKey&) = default;
};

LayerKey layer_key(const Plan& plan) {
  const std::int64_t flags = (static_cast<std::int64_t>(plan.recompute_modules) << 4) |
                             (static_cast<std::int64_t>(plan.recompute) << 2) |
                             (plan.sequence_parallel ? 2 : 0) |
                             (plan.sharding == Sharding::kNone ? 1 : 0);
  return {{plan.tensor, plan.context, plan.expert, plan.expert_tensor, plan.micro_batch, flags}};
}

struct LayerKeyHash {
  std::size_t operator()(const LayerKey& key) const {
    std::uint64_t hash = 0;
    for (const std::int64_t value : key.values) {
      hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9E3779B97F4A7C15ULL;
      hash ^= hash >> 29U;
    }
    return static_cast<std::size_t>(hash);
  }
};

double capacity_gib(const Job& job) {
  // The driver keeps 0.7 % of what nvidia-smi shows (PyTorch's own messages: 79.1 of 79.65 GiB on
  // an H100, 31.75 of 32 on a V100); the rest is the allocator's and the context's.
  constexpr double kUsable = 0.993;
  return kUsable * to_gib(job.cluster.gpu.memory) - job.framework.context_gib;
}

// Totals, band and verdict of the stages in `out`.
void conclude(const Job& job, const Plan& plan, MemoryEstimate& out) {
  out.peak_stage = 0;
  out.allocated_gib = 0;
  for (std::size_t rank = 0; rank < out.stages.size(); ++rank) {
    const double total = out.stages[rank].items.total();
    if (total > out.allocated_gib) {
      out.allocated_gib = total;
      out.peak_stage = rank;
    }
  }
  fill_reserved(job, plan, out);
  const double communicators = communicator_gib(job, plan);
  out.device_gib = out.reserved_gib + job.framework.context_gib + communicators;
  out.capacity_gib = capacity_gib(job) - communicators;
  out.fit = out.reserved_high_gib <= out.capacity_gib  ? Fit::kFits
            : out.reserved_low_gib <= out.capacity_gib ? Fit::kAtRisk
                                                       : Fit::kNo;
}

}  // namespace

struct MemoryModel::State {
  explicit State(const Job& given) : job(given) {}

  const Job job;
  std::unordered_map<LayerKey, RankLayers, LayerKeyHash> layers;
  std::unordered_map<std::uint64_t, std::vector<ChunkLayers>> splits;
  std::vector<ChunkLayers> explicit_split;
  OwnMemory own;

  const RankLayers& layers_of(const Plan& plan);
  const std::vector<ChunkLayers>& split_of(const Plan& plan);
};

const RankLayers& MemoryModel::State::layers_of(const Plan& plan) {
  const LayerKey key = layer_key(plan);
  const auto found = layers.find(key);
  if (found != layers.end()) {
    return found->second;
  }
  return layers.emplace(key, rank_layers(job, plan)).first->second;
}

const std::vector<ChunkLayers>& MemoryModel::State::split_of(const Plan& plan) {
  if (!plan.stage_layers.empty()) {
    explicit_split = chunk_layers(job, plan);
    return explicit_split;
  }
  const std::uint64_t key = (static_cast<std::uint64_t>(plan.pipeline) << 32) |
                            static_cast<std::uint64_t>(plan.virtual_pipeline);
  const auto found = splits.find(key);
  if (found != splits.end()) {
    return found->second;
  }
  return splits.emplace(key, chunk_layers(job, plan)).first->second;
}

MemoryModel::MemoryModel(const Job& job) : state_(std::make_unique<State>(job)) {}
MemoryModel::~MemoryModel() = default;
MemoryModel::MemoryModel(MemoryModel&&) noexcept = default;
MemoryModel& MemoryModel::operator=(MemoryModel&&) noexcept = default;

void MemoryModel::estimate_peak(const Plan& plan, MemoryEstimate& out) {
  if (counts_own_memory(state_->job, plan)) {
    state_->own.estimate_peak(state_->job, plan, state_->split_of(plan), out.stages);
    conclude(state_->job, plan, out);
  } else {
    estimate(plan, out);
  }
}

void MemoryModel::estimate(const Plan& plan, MemoryEstimate& out) {
  const Job& job = state_->job;
  const std::vector<ChunkLayers>& split = state_->split_of(plan);
  if (counts_own_memory(job, plan)) {
    state_->own.estimate(job, plan, split, out.stages);
  } else {
    const StageContext context = stage_context(job, plan, state_->layers_of(plan));
    out.stages.resize(static_cast<std::size_t>(plan.pipeline));
    for (std::size_t rank = 0; rank < out.stages.size(); ++rank) {
      out.stages[rank] = stage_memory(context, split, static_cast<std::int64_t>(rank));
    }
  }
  conclude(job, plan, out);
}

}  // namespace trireme::planner
