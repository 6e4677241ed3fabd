#include "tools/explain_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "planner/cost/time_items.h"
#include "planner/plan/rules.h"
#include "planner/search/explain.h"
#include "tools/launchable.h"
#include "tools/report.h"
#include "tools/table.h"

namespace trireme::tools {
namespace {

using planner::Estimate;
using planner::Job;

std::string words_of(std::string_view category) {
  std::string words(category);
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

bool same_degrees(const planner::Plan& a, const planner::Plan& b) {
  return a.tensor == b.tensor && a.pipeline == b.pipeline && a.context == b.context &&
         a.expert == b.expert && a.sharded == b.sharded && a.replicas == b.replicas;
}

struct ReasonedAxis {
  const char* name;
  std::int64_t planner::Plan::*degree;
  planner::ConstraintAxis axis;
};
constexpr ReasonedAxis kReasonedAxes[] = {
    {"tp", &planner::Plan::tensor, planner::ConstraintAxis::kTensor},
    {"pp", &planner::Plan::pipeline, planner::ConstraintAxis::kPipeline},
    {"cp", &planner::Plan::context, planner::ConstraintAxis::kContext},
    {"ep", &planner::Plan::expert, planner::ConstraintAxis::kExpert}};

// The same layout without the axis, its ranks to data parallelism; nothing where that is none.
std::optional<Estimate> without_axis(const Job& job, const planner::Plan& chosen,
                                     const ReasonedAxis& axis) {
  planner::Plan plan = chosen;
  const std::int64_t degree = plan.*axis.degree;
  plan.*axis.degree = 1;
  if (axis.axis != planner::ConstraintAxis::kExpert) {
    (plan.sharding == planner::Sharding::kNone ? plan.replicas : plan.sharded) *= degree;
  }
  if (plan.tensor == 1) {
    plan.sequence_parallel = false;
  }
  if (plan.pipeline == 1) {
    plan.virtual_pipeline = 1;
    plan.schedule = planner::Schedule::kOneForwardOneBackward;
    plan.stage_layers.clear();
    plan.prediction_apart = false;
  }
  const std::int64_t ranks = plan.data_parallel() * plan.micro_batch;
  plan.micro_batches = job.global_batch / ranks;
  if (job.global_batch % ranks != 0 || planner::check_plan(job, plan)) {
    return std::nullopt;
  }
  Estimate estimate;
  planner::Estimator(job).estimate(plan, estimate);
  return estimate;
}

std::string why_axis(const Job& job, const Estimate& chosen, const ReasonedAxis& axis) {
  planner::SearchOptions search;
  search.best_only = true;
  search.constraints = {{axis.axis, planner::Comparison::kEqual, 1}};
  const std::optional<Estimate> best = planner::search(job, search).best;
  const std::optional<Estimate> same = without_axis(job, chosen.plan, axis);
  const double seconds = chosen.time.step_seconds;
  std::string text;
  if (same && same->time.step_seconds < seconds && same->memory.fit > chosen.memory.fit) {
    text =
        fmt::format("without it {} would take {:.1f} % less, but {}{}; ",
                    planner::short_form(same->plan), 100 * (1 - same->time.step_seconds / seconds),
                    same->memory.fit == planner::Fit::kAtRisk ? "is " : "", verdict(same->memory));
  }
  if (!best) {
    return text + "without it nothing fits";
  }
  const double more = 100 * (best->time.step_seconds / seconds - 1);
  const char* sure =
      best->memory.fit > chosen.memory.fit ? ", at risk of running out of memory," : "";
  return text + fmt::format("the best without it, {},{} takes {:.1f} % {}",
                            planner::short_form(best->plan), sure, std::abs(more),
                            more < 0 ? "less" : "more");
}

using JobChange = std::pair<std::string, std::function<void(Job&)>>;

std::vector<JobChange> changes_of(const Job& job) {
  std::vector<JobChange> changes = {
      {fmt::format("a global batch of {}", 2 * job.global_batch),
       [](Job& other) { other.global_batch *= 2; }},
      {fmt::format("sequences of {}", 2 * job.sequence), [](Job& other) { other.sequence *= 2; }},
      {"cards with half the memory",
       [](Job& other) { other.cluster.gpu.memory = Bytes(other.cluster.gpu.memory.value / 2); }},
  };
  if (job.global_batch % 2 == 0) {
    changes.emplace_back(fmt::format("a global batch of {}", job.global_batch / 2),
                         [](Job& other) { other.global_batch /= 2; });
  }
  if (job.cluster.nodes > 1) {
    changes.emplace_back("a network of half the bandwidth",
                         [](Job& other) { other.cluster.node.nic = other.cluster.node.nic * 0.5; });
    changes.emplace_back("a network of twice the bandwidth",
                         [](Job& other) { other.cluster.node.nic = other.cluster.node.nic * 2; });
  }
  return changes;
}

}  // namespace

std::string what_binds_time(const Estimate& estimate) {
  std::string_view most;
  double most_seconds = 0;
  for (const auto& [name, item] : planner::kTimeItems) {
    const double seconds = estimate.time.exposed.*item;
    if (item != &planner::TimeItems::compute && seconds > most_seconds) {
      most = name;
      most_seconds = seconds;
    }
  }
  const double step = estimate.time.step_seconds;
  const double compute = estimate.time.exposed.compute;
  std::string text = fmt::format("compute takes {:.0f} % of the step", 100 * compute / step);
  if (most_seconds > 0) {
    text += fmt::format("; of the rest most is {} with {:.0f} % ({})", words_of(most),
                        100 * most_seconds / step, duration_text(most_seconds));
  }
  return text + (compute > 0.8 * step
                     ? ": faster products or fewer of them (recompute) would help, "
                       "a faster network hardly"
                     : "");
}

std::string what_binds_memory(const Estimate& estimate) {
  return planner::memory_detail(estimate.memory);
}

std::string what_rival_costs(const Estimate& chosen, const Estimate& rival) {
  const double more = rival.time.step_seconds - chosen.time.step_seconds;
  const bool less_sure = rival.memory.fit > chosen.memory.fit;
  std::string text = planner::short_form(rival.plan);
  text += less_sure ? fmt::format(" {}{}; it would take",
                                  rival.memory.fit == planner::Fit::kAtRisk ? "is " : "",
                                  verdict(rival.memory))
                    : " takes";
  text += fmt::format(" {} {} ({:+.1f} %) and {:.1f} GiB {}", duration_text(std::abs(more)),
                      more >= 0 ? "more" : "less", 100 * more / chosen.time.step_seconds,
                      std::abs(rival.memory.allocated_gib - chosen.memory.allocated_gib),
                      rival.memory.allocated_gib >= chosen.memory.allocated_gib ? "more" : "less");
  int shown = 0;
  for (const planner::Difference& d : planner::differences(chosen.time, rival.time)) {
    if (std::abs(d.seconds) > 1e-3 * chosen.time.step_seconds && shown++ < 3) {
      text += fmt::format("{} {} {}{}", shown == 1 ? ":" : ",", words_of(d.category),
                          d.seconds > 0 ? "+" : "-", duration_text(std::abs(d.seconds)));
    }
  }
  return text;
}

std::vector<std::string> why_axes(const Job& job, const Estimate& chosen) {
  std::vector<std::string> words;
  for (const ReasonedAxis& axis : kReasonedAxes) {
    if (chosen.plan.*axis.degree > 1) {
      words.push_back(fmt::format("Why {} {}: {}.", axis.name, chosen.plan.*axis.degree,
                                  why_axis(job, chosen, axis)));
    }
  }
  return words;
}

std::vector<Flip> what_would_flip(const Job& job, const planner::Plan& best) {
  std::vector<Flip> flips;
  for (const auto& [words, change] : changes_of(job)) {
    Job other = job;
    change(other);
    const auto found = search_recommended(other, {}, {}, false).answer.found.result.best;
    if (found && !same_degrees(found->plan, best)) {
      flips.push_back({words, planner::short_form(found->plan), found->time.step_seconds});
    }
  }
  return flips;
}

}  // namespace trireme::tools
