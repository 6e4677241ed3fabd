#include "planner/search/front.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "planner/search/orders.h"

namespace trireme::planner {
namespace {

constexpr double kBox = 0.00995033085316808;  // ln 1.01
constexpr double kMemoryLowest = 1.0 / 64;    // GiB
constexpr double kSameValue = 1e-6;
constexpr int kUnreached = std::numeric_limits<int>::max();

auto key_of(const Plan& plan) {
  return std::tie(plan.pipeline, plan.tensor, plan.context, plan.expert, plan.virtual_pipeline,
                  plan.sharded, plan.replicas, plan.sharding, plan.schedule, plan.recompute,
                  plan.recompute_layers, plan.micro_batch, plan.stage_layers, plan.prediction_apart,
                  plan.order);
}

template <typename... Used>
int count(Used... used) {
  return (0 + ... + (used ? 1 : 0));
}

}  // namespace

int complexity_of(const Plan& plan) {
  return complexity_of(plan, placement_of(degrees_of(plan), plan.order).usual);
}

int complexity_of(const Plan& plan, bool usual_order) {
  return count(plan.tensor > 1, plan.pipeline > 1, plan.virtual_pipeline > 1, plan.context > 1,
               plan.expert > 1, plan.sharded > 1, plan.sharded > 1 && plan.replicas > 1,
               plan.replicas > 1 && plan.sharded == 1,
               splits_every_backward(plan.schedule) || is_in_v(plan.schedule),
               plan.recompute == Recompute::kFull && plan.recompute_layers >= 0,
               plan.expert_tensor != 0, !plan.stage_layers.empty(), !usual_order);
}

bool better(const Candidate& a, const Candidate& b) {
  if (std::abs(a.value - b.value) > kSameValue * std::min(std::abs(a.value), std::abs(b.value))) {
    return a.value < b.value;
  }
  if (a.complexity != b.complexity) {
    return a.complexity < b.complexity;
  }
  if (std::abs(a.memory_gib - b.memory_gib) > kSameValue * std::max(a.memory_gib, b.memory_gib)) {
    return a.memory_gib < b.memory_gib;
  }
  return key_of(a.plan) < key_of(b.plan);
}

Front::Front() : fastest_(kLevels) {
  for (auto& level : fastest_) {
    level.fill(kUnreached);
  }
}

GridMemory memory_on_grid(double gib) {
  const double box = std::log(std::max(gib, kMemoryLowest) / kMemoryLowest) / kBox;
  return {gib, std::min(static_cast<int>(box), kMemoryBoxes - 1)};
}

GridTime time_on_grid(double seconds) {
  return {seconds, static_cast<int>(std::floor(std::log(std::max(seconds, 1e-12)) / kBox))};
}

bool Front::covers(const GridTime& time, const GridMemory& memory, int complexity) const {
  const auto level = static_cast<std::size_t>(std::clamp(complexity, 0, kLevels - 1));
  return fastest_[level][static_cast<std::size_t>(memory.box)] <= time.box;
}

void Front::spread(int complexity, int box, int time) {
  for (auto level = static_cast<std::size_t>(complexity); level < kLevels; ++level) {
    for (auto i = static_cast<std::size_t>(box); i < kMemoryBoxes && fastest_[level][i] > time;
         ++i) {
      fastest_[level][i] = time;  // rows fall with memory: the first that is as fast ends the run
    }
  }
}

void Front::insert(const Candidate& candidate) {
  const GridTime time = time_on_grid(candidate.step_seconds);
  const GridMemory memory = memory_on_grid(candidate.memory_gib);
  if (covers(time, memory, candidate.complexity)) {
    return;
  }
  kept_.push_back(candidate);
  spread(std::clamp(candidate.complexity, 0, kLevels - 1), memory.box, time.box);
}

std::vector<Candidate> Front::members() const {
  std::vector<Candidate> found;
  for (const Candidate& candidate : kept_) {
    const bool covered = std::any_of(kept_.begin(), kept_.end(), [&](const Candidate& other) {
      if (&other == &candidate) {
        return false;
      }
      const int time =
          time_on_grid(other.step_seconds).box - time_on_grid(candidate.step_seconds).box;
      const int memory =
          memory_on_grid(other.memory_gib).box - memory_on_grid(candidate.memory_gib).box;
      const int complexity = other.complexity - candidate.complexity;
      return time <= 0 && memory <= 0 && complexity <= 0 &&
             (time < 0 || memory < 0 || complexity < 0);
    });
    if (!covered) {
      found.push_back(candidate);
    }
  }
  std::sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.step_seconds, a.memory_gib, a.complexity) <
           std::tie(b.step_seconds, b.memory_gib, b.complexity);
  });
  return found;
}

}  // namespace trireme::planner
