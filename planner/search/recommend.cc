#include "planner/search/recommend.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/search/front.h"

namespace trireme::planner {
namespace {

bool leaves_node(const Job& job, const Plan& plan) {
  const topologies::GroupShape group =
      topologies::group_shape(job.cluster, plan.tensor, stride_of(plan, Axis::kTensor));
  return plan.tensor > 1 && group.ranks_per_node < group.ranks;
}

double margin_of(const Estimate& estimate) {
  return 1 - estimate.memory.reserved_gib / estimate.memory.capacity_gib;
}

constexpr double kMarginSteps = 20;  // margins are told apart by 5 % of the card

auto burden_of(const Job& job, const Estimate& estimate) {
  return std::tuple(leaves_node(job, estimate.plan), complexity_of(estimate.plan),
                    estimate.plan.virtual_pipeline,
                    -static_cast<int>(kMarginSteps * margin_of(estimate)));
}

// The first thing that speaks for `chosen`.
std::string advantage(const Job& job, const Estimate& chosen, const Estimate& fastest) {
  if (!leaves_node(job, chosen.plan) && leaves_node(job, fastest.plan)) {
    return "keeps tensor parallelism in the node";
  }
  const int simpler = complexity_of(chosen.plan);
  const int other = complexity_of(fastest.plan);
  if (simpler != other) {
    return fmt::format("is simpler (complexity {} instead of {})", simpler, other);
  }
  if (chosen.plan.virtual_pipeline != fastest.plan.virtual_pipeline) {
    return fmt::format("has {} virtual stages a rank instead of {}", chosen.plan.virtual_pipeline,
                       fastest.plan.virtual_pipeline);
  }
  return fmt::format("leaves {:.0f} % of the memory free instead of {:.0f} %",
                     100 * margin_of(chosen), 100 * margin_of(fastest));
}

}  // namespace

std::string_view advantage_word(const Job& job, const Estimate& chosen, const Estimate& faster) {
  const auto [leaves, complexity, chunks, margin] = burden_of(job, chosen);
  const auto [other_leaves, other_complexity, other_chunks, other_margin] = burden_of(job, faster);
  return leaves < other_leaves           ? "TP in the node"
         : complexity < other_complexity ? "simpler"
         : chunks < other_chunks         ? "fewer virtual stages"
                                         : "more memory free";
}

std::string recommend(const Job& job, SearchResult& result) {
  if (!result.best) {
    return {};
  }
  std::vector<Estimate> rows = std::move(result.alternatives);
  rows.insert(rows.begin(), std::move(*result.best));
  std::stable_sort(rows.begin(), rows.end(), [](const Estimate& a, const Estimate& b) {
    return std::pair(a.memory.fit, a.time.step_seconds) <
           std::pair(b.memory.fit, b.time.step_seconds);
  });
  const Estimate fastest = rows.front();
  const auto end = std::find_if(rows.begin(), rows.end(), [&](const Estimate& row) {
    return row.memory.fit != fastest.memory.fit ||
           row.time.step_seconds > (1 + kToldApart) * fastest.time.step_seconds;
  });
  std::stable_sort(rows.begin(), end, [&](const Estimate& a, const Estimate& b) {
    return burden_of(job, a) < burden_of(job, b);
  });
  const Estimate& chosen = rows.front();
  std::string why;
  if (!(chosen.plan == fastest.plan)) {
    why = fmt::format("{} is {:.1f} % faster, which predictions do not tell apart; the first {}",
                      short_form(fastest.plan),
                      100 * (1 - fastest.time.step_seconds / chosen.time.step_seconds),
                      advantage(job, chosen, fastest));
  }
  result.best = std::move(rows.front());
  rows.erase(rows.begin());
  result.alternatives = std::move(rows);
  return why;
}

}  // namespace trireme::planner
