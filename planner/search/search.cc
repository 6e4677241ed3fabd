#include "planner/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "core/check.h"
#include "core/parallel.h"
#include "planner/plan/job_check.h"
#include "planner/search/decide.h"
#include "planner/search/standings.h"
#include "planner/search/visit.h"

namespace trireme::planner {
namespace {

// Nodes of a round are visited against the same standings, whoever visits them. Rounds are short
// while layouts are estimated, so that good plans are known soon.
constexpr std::size_t kRoundFirst = 8;
constexpr std::size_t kRoundLast = 128;
constexpr std::size_t kMissesShown = 3;

class Search {
 public:
  Search(const Job& job, const SearchOptions& options)
      : job_(job), options_(options), threads_(std::clamp(options.threads, 1, usable_threads())) {}

  SearchResult run() {
    enumerate(job_, options_.constraints, options_.fixed, space_, options_.accepts);
    result_.space = space_.layouts;
    if (!space_.nodes.empty()) {
      estimators_.resize(static_cast<std::size_t>(threads_));
      standings_.reset(space_, options_);
      bound();
      visit_all();
      conclude();
    }
    result_.rejected = std::move(space_.rejections);
    add_memory_rejection();
    return std::move(result_);
  }

 private:
  // Each thread has one of its own, made when it first has work.
  Estimator& estimator(std::size_t thread) {
    std::unique_ptr<Estimator>& own = estimators_[thread];
    if (own == nullptr) {
      own = std::make_unique<Estimator>(job_);
    }
    return *own;
  }

  void bound() {
    bounds_.seconds.resize(space_.nodes.size());
    bounds_.least_memory.resize(space_.pipelines);
    // Nodes whose layers are cut alike stay on one thread, which then times those layers once.
    std::map<std::array<std::int64_t, 4>, std::vector<std::size_t>> families;
    for (std::size_t i = 0; i < space_.nodes.size(); ++i) {
      const Plan& plan = space_.nodes[i].plan;
      families[{plan.tensor, plan.context, plan.expert, plan.expert_tensor}].push_back(i);
    }
    std::vector<std::vector<std::size_t>> parts;
    parts.reserve(families.size());
    for (auto& [cut, nodes] : families) {
      parts.push_back(std::move(nodes));
    }
    parallel_for(threads_, parts.size(), [&](std::size_t thread, std::size_t part) {
      Estimator& own = estimator(thread);
      const SpaceNode* last = nullptr;  // nodes that differ in what is recomputed stand together
      double seconds = 0;
      for (const std::size_t i : parts[part]) {
        const SpaceNode& node = space_.nodes[i];
        if (last == nullptr || last->pipeline != node.pipeline ||
            last->plan.micro_batch != node.plan.micro_batch) {
          seconds = own.time().lower_bound(recomputing_nothing(node.plan));
        }
        last = &node;
        bounds_.seconds[i] = seconds;
        const bool first = i == 0 || space_.nodes[i - 1].pipeline != node.pipeline;
        if (first && !options_.best_only) {
          bounds_.least_memory[node.pipeline] = least_memory(job_, space_, node, own);
        }
      }
    });
  }

  // On one thread: a round is over in a millisecond, and to wait in each for a thread that another
  // program keeps off its core took `plan` four times as long (two cores at load 6).
  void visit_all() {
    std::vector<std::size_t> order(space_.nodes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return bounds_.seconds[a] < bounds_.seconds[b];
    });
    std::vector<NodeOutcome> outcomes(kRoundLast);
    std::size_t round = kRoundFirst;
    for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
      end = std::min(begin + round, order.size());
      for (std::size_t i = begin; i < end; ++i) {
        outcomes[i - begin].clear();
        visit(options_, space_, order[i], bounds_, standings_, estimator(0), outcomes[i - begin]);
      }
      const std::int64_t before = result_.evaluated;
      for (std::size_t i = begin; i < end; ++i) {
        add(space_.nodes[order[i]], outcomes[i - begin]);
      }
      standings_.settle();
      round = result_.evaluated > before ? std::max(round / 2, kRoundFirst)
                                         : std::min(2 * round, kRoundLast);
      if (options_.progress) {
        options_.progress(static_cast<double>(result_.evaluated + result_.pruned_by_bound) /
                          static_cast<double>(result_.space));
      }
    }
    TRIREME_CHECK(result_.evaluated + result_.pruned_by_bound == result_.space);
  }

  void add(const SpaceNode& node, const NodeOutcome& outcome) {
    standings_.add(outcome);
    result_.evaluated += outcome.evaluated;
    result_.evaluated_plans.insert(result_.evaluated_plans.end(), outcome.all.begin(),
                                   outcome.all.end());
    result_.pruned_by_bound += outcome.pruned;
    result_.feasible += outcome.feasible;
    memory_rejections_ += outcome.too_large;
    if (!too_large_example_ && outcome.too_large_choice != nullptr) {
      too_large_example_ = with_sharding(node.plan, *outcome.too_large_choice);
      too_large_example_->order = outcome.too_large_choice->orders->front();
    }
  }

  Estimate estimated(const Plan& plan) {
    Estimate estimate;
    estimator(0).estimate(plan, estimate);
    return estimate;
  }

  void conclude() {
    const Tier* tier = standings_.tier();
    if (tier == nullptr) {
      for (const Candidate& miss : standings_.misses(kMissesShown)) {
        result_.nearest_misses.push_back(estimated(miss.plan));
      }
      return;
    }
    std::vector<Candidate> ranked = tier->ranked();
    if (options_.best_only) {
      result_.best = estimated(ranked.front().plan);
      return;
    }
    for (const Candidate& member : tier->front.members()) {
      result_.pareto.push_back(ranked_plan(member));
    }
    if (options_.goal == Goal::kUtility) {
      rank_by_utility(ranked);
    }
    const Candidate& best = ranked.front();
    result_.best = estimated(best.plan);
    for (std::size_t i = 1; i < ranked.size(); ++i) {
      if (result_.alternatives.size() < options_.alternatives) {
        result_.alternatives.push_back(estimated(ranked[i].plan));
      }
      // No more groups are looked at whole than the limit asks for.
      const bool known = ranked[i].value <= tier->limit * kSame;
      if (known && ranked[i].low_seconds <= best.high_seconds &&
          best.low_seconds <= ranked[i].high_seconds) {
        result_.ties.push_back(ranked_plan(ranked[i]));
      }
    }
    if (const Candidate* risky = standings_.risky_best();
        risky != nullptr && better(*risky, best)) {
      result_.at_risk = estimated(risky->plan);
    }
  }

  static RankedPlan ranked_plan(const Candidate& c) {
    return {c.plan,       c.step_seconds, c.low_seconds, c.high_seconds,
            c.memory_gib, c.fit,          c.complexity};
  }

  // Utility rises when time, memory or complexity falls, so its best is on the front.
  void rank_by_utility(std::vector<Candidate>& ranked) {
    ranked = standings_.tier()->front.members();
    const double fastest = ranked.front().step_seconds;
    const double capacity = estimated(ranked.front().plan).memory.capacity_gib;
    for (Candidate& candidate : ranked) {
      candidate.value = -utility_of(options_.weights, ranked_plan(candidate), fastest, capacity);
    }
    std::sort(ranked.begin(), ranked.end(), better);
  }

  void add_memory_rejection() {
    if (memory_rejections_ == 0) {
      return;
    }
    const std::vector<Candidate> misses = standings_.misses(1);
    const Estimate nearest = estimated(misses.empty() ? *too_large_example_ : misses.front().plan);
    result_.rejected.push_back({.rule = Rule::kMemory,
                                .count = memory_rejections_,
                                .example = nearest.plan,
                                .detail = memory_detail(nearest.memory)});
  }

  const Job& job_;
  const SearchOptions& options_;
  int threads_;
  Space space_;
  Bounds bounds_;
  Standings standings_;
  std::vector<std::unique_ptr<Estimator>> estimators_;
  std::int64_t memory_rejections_ = 0;
  std::optional<Plan> too_large_example_;
  SearchResult result_;
};

}  // namespace

SearchResult search(const Job& job, const SearchOptions& options) {
  TRIREME_CHECK(job.global_batch > 0);
  TRIREME_CHECK(!options.best_only || options.goal != Goal::kUtility);
  check_job(job);
  const auto begin = std::chrono::steady_clock::now();
  SearchResult result = Search(job, options).run();
  result.search_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

std::string memory_detail(const MemoryEstimate& memory) {
  if (memory.host_gib > memory.host_capacity_gib) {
    return fmt::format("a node's host needs {:.0f} GiB and has {:.0f}", memory.host_gib,
                       memory.host_capacity_gib);
  }
  constexpr std::pair<const char*, double MemoryItems::*> kItems[] = {
      {"parameters", &MemoryItems::parameters},
      {"gradients", &MemoryItems::gradients},
      {"optimizer state", &MemoryItems::optimizer},
      {"activations", &MemoryItems::activations},
      {"gathered parameters", &MemoryItems::gathered_parameters},
      {"logits", &MemoryItems::logits},
      {"communication buffers", &MemoryItems::communication},
      {"other", &MemoryItems::other}};
  const MemoryItems& items = memory.stages.at(memory.peak_stage).items;
  const auto* largest = std::max_element(
      std::begin(kItems), std::end(kItems),
      [&](const auto& a, const auto& b) { return items.*(a.second) < items.*(b.second); });
  return fmt::format(
      "stage {} allocates {:.1f} GiB, of which {} {:.1f}; with what the allocator adds and the "
      "prediction's error that is {:.1f} to {:.1f}, and the GPU can have {:.1f} GiB",
      memory.peak_stage, memory.allocated_gib, largest->first, items.*(largest->second),
      memory.reserved_low_gib, memory.reserved_high_gib, memory.capacity_gib);
}

double utility_of(const UtilityWeights& weights, const RankedPlan& plan, double best_step_seconds,
                  double capacity_gib) {
  return weights.throughput * best_step_seconds / plan.step_seconds -
         weights.memory * plan.memory_gib / capacity_gib -
         weights.complexity * f21_complexity(plan.plan);
}

}  // namespace trireme::planner
