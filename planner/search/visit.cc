#include "planner/search/visit.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "planner/cost/layer_times.h"
#include "planner/cost/own_memory.h"
#include "planner/cost/reserved_memory.h"
#include "planner/search/counts.h"
#include "topologies/node_groups.h"

namespace trireme::planner {
namespace {

double value_of(Goal goal, double seconds, double memory_gib) {
  // Cost is time x GPUs x price, utility is chosen from the front: both walk by time.
  return goal == Goal::kMemory ? memory_gib : seconds;
}

// One node's walk over sharding choices and orders.
class Visit {
 public:
  Visit(const SearchOptions& options, const Space& space, const SpaceNode& node,
        const Standings& standings, Estimator& estimator, NodeOutcome& outcome)
      : options_(options),
        accepts_(space.accepts),
        degrees_(space.degrees[node.degrees]),
        node_(node),
        standings_(standings),
        estimator_(estimator),
        outcome_(outcome),
        plan_(node.plan) {}

  void run(double seconds, const std::vector<LeastMemory>& least) {
    if (options_.goal != Goal::kMemory && standings_.is_beaten(seconds)) {
      outcome_.pruned += degrees_.layouts;
      return;
    }
    GridTime time = time_on_grid(seconds);
    bool own = node_.plan.recompute == Recompute::kNone;  // whether the bound is this node's
    for (std::size_t c = 0; c < degrees_.shardings.size(); ++c) {
      const ShardingChoice& choice = degrees_.shardings[c];
      const auto orders = static_cast<std::int64_t>(choice.orders->size());
      const std::size_t group = standings_.group_of(node_.degrees, c);
      turn_to(choice);
      // Looking for the best only, few nodes come so far: their own memory is soon asked.
      const LeastMemory known_least =
          least.empty() ? LeastMemory{GridMemory{}, Fit::kFits} : least[c];
      if (known_least.fit == Fit::kNo) {
        note_too_large(choice, group);
        continue;
      }
      const int complexity = complexity_of(plan_, true);  // of some order: the least
      const bool risky_at_least = known_least.fit == Fit::kAtRisk;
      bool matters = may_matter(group, risky_at_least, time, known_least.memory, complexity);
      if (matters && !own) {
        own = true;
        time = time_on_grid(std::max(seconds, estimator_.time().lower_bound(node_.plan)));
        matters = may_matter(group, risky_at_least, time, known_least.memory, complexity);
      }
      if (!matters || !accepts_.takes(plan_)) {
        outcome_.pruned += orders;
        continue;
      }
      estimator_.memory().estimate_if_fits(plan_, estimate_.memory);
      if (estimate_.memory.fit == Fit::kNo) {
        note_too_large(choice, group);
        continue;
      }
      const bool risky = estimate_.memory.fit == Fit::kAtRisk;
      const GridMemory memory = memory_on_grid(estimate_.memory.allocated_gib);
      if (!may_matter(group, risky, time, memory, complexity)) {
        outcome_.pruned += orders;
        continue;
      }
      walk_orders(group, risky, memory, complexity, choice);
    }
  }

 private:
  void turn_to(const ShardingChoice& choice) {
    set_sharding(choice, plan_);
    plan_.order = choice.orders->front();
  }

  // A branch bounded as fitting may still hold layouts at risk, which matter less: asking for the
  // better tier is sound only when the worse one is asked too.
  [[nodiscard]] bool may_matter(std::size_t group, bool risky, const GridTime& time,
                                const GridMemory& memory, int complexity) const {
    return (!risky && can_matter(group, false, time, memory, complexity)) ||
           can_matter(group, true, time, memory, complexity);
  }

  [[nodiscard]] bool can_matter(std::size_t group, bool risky, const GridTime& time,
                                const GridMemory& memory, int complexity) const {
    const double value = value_of(options_.goal, time.seconds, memory.gib);
    return standings_.can_matter(group, risky, value, time, memory, complexity,
                                 known(group, risky));
  }

  // The best value of the group that this node has shown.
  [[nodiscard]] double known(std::size_t group, bool risky) const {
    const auto& groups = risky ? outcome_.risky : outcome_.fitting;
    const auto found = std::find_if(groups.rbegin(), groups.rend(),
                                    [&](const auto& entry) { return entry.first == group; });
    return found == groups.rend() ? kNever : found->second.value;
  }

  // An order fixes where the tensor and context ranks sit, and so a higher bound than the node's.
  // Memory does not depend on it.
  void walk_orders(std::size_t group, bool risky, const GridMemory& memory, int usual_complexity,
                   const ShardingChoice& choice) {
    evaluated_.clear();
    for (std::size_t i = 0; i < choice.placements.size(); ++i) {
      const Placement& placement = choice.placements[i];
      plan_.order = (*choice.orders)[i];
      const int complexity = usual_complexity + (placement.usual ? 0 : 1);
      const auto is_excluded = [&](const GridTime& time) {
        return is_dominated(time.seconds, complexity) ||
               !can_matter(group, risky, time, memory, complexity);
      };
      if (is_excluded(bound_of_order(placement)) ||
          is_excluded(time_on_grid(estimator_.time().sharded_bound(plan_)))) {
        ++outcome_.pruned;
        continue;
      }
      evaluate(group, risky, memory, complexity);
    }
  }

  // Whether another order of this choice, which needs the same memory, is faster and simpler.
  [[nodiscard]] bool is_dominated(double seconds, int complexity) const {
    return std::any_of(evaluated_.begin(), evaluated_.end(), [&](const auto& other) {
      return other.first * kSame < seconds && other.second < complexity;
    });
  }

  GridTime bound_of_order(const Placement& placement) {
    // Experts may be wider in an unsharded copy: its bound is no other's.
    const std::array<std::int64_t, 3> strides = {placement.tensor_stride, placement.context_stride,
                                                 plan_.sharding == Sharding::kNone ? 1 : 0};
    const auto found = std::find_if(bounds_.begin(), bounds_.end(),
                                    [&](const auto& entry) { return entry.first == strides; });
    if (found != bounds_.end()) {
      return found->second;
    }
    const GridTime bound = time_on_grid(estimator_.time().placed_bound(plan_));
    bounds_.emplace_back(strides, bound);
    return bound;
  }

  void evaluate(std::size_t group, bool risky, const GridMemory& memory, int complexity) {
    estimator_.time().estimate(plan_, estimate_.time);
    ++outcome_.evaluated;
    ++outcome_.feasible;
    const TimeEstimate& time = estimate_.time;
    const double gib = memory.gib;
    if (options_.keep_evaluated) {
      outcome_.all.push_back({plan_, time.step_seconds, time.low_seconds, time.high_seconds, gib,
                              estimate_.memory.fit, complexity});
    }
    const GridTime step = time_on_grid(time.step_seconds);
    evaluated_.emplace_back(time.step_seconds, complexity);
    if (!can_matter(group, risky, step, memory, complexity)) {
      return;
    }
    const Candidate candidate{.plan = plan_,
                              .step_seconds = time.step_seconds,
                              .low_seconds = time.low_seconds,
                              .high_seconds = time.high_seconds,
                              .memory_gib = gib,
                              .value = value_of(options_.goal, time.step_seconds, gib),
                              .fit = estimate_.memory.fit,
                              .complexity = complexity};
    auto& groups = risky ? outcome_.risky : outcome_.fitting;
    if (groups.empty() || groups.back().first != group) {
      groups.emplace_back(group, candidate);
    } else if (better(candidate, groups.back().second)) {
      groups.back().second = candidate;
    }
    if (!options_.best_only && !standings_.tier_of(risky).front.covers(step, memory, complexity)) {
      (risky ? outcome_.risky_front : outcome_.fitting_front).push_back(candidate);
    }
  }

  void note_too_large(const ShardingChoice& choice, std::size_t group) {
    const auto orders = static_cast<std::int64_t>(choice.orders->size());
    outcome_.pruned += orders;
    if (!accepts_.takes(plan_)) {
      return;
    }
    outcome_.too_large += orders;
    if (outcome_.too_large_choice == nullptr) {
      outcome_.too_large_choice = &choice;
    }
    if (!node_.leanest) {
      return;
    }
    estimator_.memory().estimate_peak(plan_, estimate_.memory);
    Candidate miss;
    miss.memory_gib = estimate_.memory.allocated_gib;
    miss.value = estimate_.memory.reserved_low_gib / estimate_.memory.capacity_gib;
    miss.complexity = complexity_of(plan_);
    miss.plan = plan_;
    outcome_.misses.emplace_back(group, std::move(miss));
  }

  const SearchOptions& options_;
  const Acceptance& accepts_;
  const Degrees& degrees_;
  const SpaceNode& node_;
  const Standings& standings_;
  Estimator& estimator_;
  NodeOutcome& outcome_;
  Plan plan_;  // the node's with the choice and the order at hand
  Estimate estimate_;
  std::vector<std::pair<double, int>> evaluated_;  // orders of one choice: seconds, complexity
  std::vector<std::pair<std::array<std::int64_t, 3>, GridTime>> bounds_;  // by strides
};

}  // namespace

Plan recomputing_nothing(const Plan& plan) {
  Plan changed = plan;
  changed.recompute = Recompute::kNone;
  changed.recompute_layers = -1;
  return changed;
}

namespace {

// Whether some chunk may have a single layer.
bool has_short_chunks(const Job& job, const Plan& plan) {
  const std::int64_t chunks = plan.pipeline * plan.virtual_pipeline;
  return plan.stage_layers.empty() ? job.model.layers < 2 * (chunks + 1)
                                   : std::ranges::min(plan.stage_layers) <= 1;
}

// A flat buffer has the gradients through the step. ZeRO-1 and 2 make them in a step's only
// backward (makes_zero_gradients).
bool has_flat_gradients(const Job& job) {
  return job.framework.states != StateLayout::kTorch &&
         job.framework.states != StateLayout::kDeepSpeed &&
         job.framework.implementation != models::Implementation::kTrireme;
}

// Whether no plan of the pipeline allocates less than the one that recomputes all. Of a lone layer
// one that keeps everything may: recomputed, it has its input twice. So may one whose layers are
// held otherwise than they are recomputed: on the host, twice under adapters, not at all where they
// are frozen, as weight gradients that wait; and one whose gradients come into being while the last
// layers' activations are let go.
bool full_recompute_is_leanest(const Job& job, const Plan& plan) {
  return has_flat_gradients(job) && !has_short_chunks(job, plan) && !splits_backward(plan) &&
         !job.offload.any() && !job.training.has_adapters() && job.training.frozen_layers == 0 &&
         !topologies::has_unlike_nodes(job.cluster);
}

// Where the plan that recomputes all is the leanest: whether no other fits better. One that
// allocates more may, since blocks of what is recomputed stay cached and states are counted more
// surely than activations, unless not even activations alone would fit.
bool settles(const Job& job, const Plan& plan, const MemoryEstimate& memory) {
  const bool recomputes_all = plan.recompute == Recompute::kFull && plan.recompute_layers < 0;
  return memory.fit == Fit::kFits ||
         (recomputes_all && memory.allocated_gib > most_that_fits_gib(job, memory.capacity_gib));
}

// Micro-batches of which one needs least memory, whatever is recomputed.
std::vector<std::int64_t> leanest_sizes(const Job& job, const Plan& plan, bool own,
                                        std::int64_t sequences) {
  // One micro-batch of many sequences keeps what they do one by one, and more.
  if (has_flat_gradients(job) || sequences == 1) {
    return {1};
  }
  if (plan.schedule == Schedule::kGpipe && plan.pipeline > 1) {
    // Beside a layer's backward wait the logits of all micro-batches but its own.
    return divisors_of(sequences);
  }
  // One backward keeps no gradients, and without another micro-batch none wait beside it or between
  // the halves of a split one.
  if (!own || splits_every_backward(plan.schedule) || has_short_chunks(job, plan)) {
    // Of chunks in turn, as many micro-batches as stages: none is done while others wait.
    if (plan.schedule == Schedule::kInterleaved && sequences > plan.pipeline &&
        sequences % plan.pipeline == 0) {
      return {1, sequences / plan.pipeline, sequences};
    }
    return {1, sequences};
  }
  return {1};
}

// Where no forward is left behind a first backward a stage needs no copy of the embedding, nor a
// forward beside its whole gradient (planner/cost/own_embedding.h): as many micro-batches as
// stages, or one. None where the sequences that are under way then keep more, an input a layer
// each.
std::vector<std::int64_t> sizes_without_forwards_to_come(const Job& job, const Plan& plan,
                                                         std::int64_t sequences) {
  const models::Transformer& model = job.model;
  const std::int64_t ranks = plan.context * (plan.sequence_parallel ? plan.tensor : 1);
  const std::int64_t layers = std::max<std::int64_t>(1, model.layers / (2 * plan.pipeline));
  const std::int64_t kept =
      2 * (sequences - plan.pipeline) * (job.sequence / ranks) * model.hidden * layers;
  const std::int64_t spared =
      (6 * models::embedding_parameter_count(model) + 4 * models::layer_parameter_count(model, 0)) /
      plan.tensor;
  if (kept > spared) {
    return {};
  }
  std::int64_t micro_batches = std::min(plan.pipeline, sequences);
  while (sequences % micro_batches != 0) {
    --micro_batches;
  }
  return {sequences / micro_batches, sequences};
}

bool shards_gradients(const ShardingChoice& choice) {
  return choice.sharding == Sharding::kGradients || choice.sharding == Sharding::kFull;
}

}  // namespace

std::vector<LeastMemory> least_memory(const Job& job, const Space& space, const SpaceNode& node,
                                      Estimator& estimator) {
  const std::vector<ShardingChoice>& choices = space.degrees[node.degrees].shardings;
  const std::int64_t sequences = node.plan.micro_batches * node.plan.micro_batch;
  const bool own = counts_own_memory(job, node.plan) && node.plan.pipeline > 1;
  const bool leanest = full_recompute_is_leanest(job, node.plan);
  std::vector<LeastMemory> least(choices.size());
  std::vector<std::size_t> open(choices.size());  // those of which another plan may fit better
  std::iota(open.begin(), open.end(), std::size_t{0});
  MemoryEstimate memory;
  Plan plan = node.plan;
  // Of every choice: what they have in common is then counted once.
  const auto ask = [&](Recompute recompute, std::int64_t layers, std::int64_t micro_batch) {
    plan.recompute = recompute;
    plan.recompute_layers = layers;
    plan.micro_batch = micro_batch;
    plan.micro_batches = sequences / micro_batch;
    std::vector<std::size_t> left;
    for (const std::size_t c : open) {
      set_sharding(choices[c], plan);
      estimator.memory().estimate_if_fits(plan, memory);
      if (!leanest || !settles(job, plan, memory)) {
        left.push_back(c);
      }
      if (memory.allocated_gib < least[c].memory.gib) {
        least[c].memory = memory_on_grid(memory.allocated_gib);
      }
      least[c].fit = std::min(least[c].fit, memory.fit);
    }
    open = std::move(left);
  };
  std::vector<std::int64_t> sizes = leanest_sizes(job, node.plan, own, sequences);
  const auto ask_all = [&](Recompute recompute, std::int64_t layers) {
    for (const std::int64_t size : sizes) {
      ask(recompute, layers, size);
    }
  };
  ask_all(Recompute::kFull, -1);
  if (own) {
    std::erase_if(open, [&](std::size_t c) { return !shards_gradients(choices[c]); });
    sizes = sizes_without_forwards_to_come(job, node.plan, sequences);
    ask_all(Recompute::kFull, -1);
    return least;
  }
  ask_all(Recompute::kNone, -1);
  ask_all(Recompute::kSelective, -1);
  for (const std::int64_t count :
       partly_recomputed(job, node.plan)) {  // a lone one may be the last
    ask_all(Recompute::kFull, count);
  }
  return least;
}

void visit(const SearchOptions& options, const Space& space, std::size_t node, const Bounds& bounds,
           const Standings& standings, Estimator& estimator, NodeOutcome& outcome) {
  const SpaceNode& here = space.nodes[node];
  Visit(options, space, here, standings, estimator, outcome)
      .run(bounds.seconds[node], bounds.least_memory[here.pipeline]);
}

}  // namespace trireme::planner
