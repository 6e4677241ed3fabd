#include "tools/plan_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/error.h"
#include "planner/cost/offload_fit.h"
#include "planner/plan/rules.h"
#include "planner/plan/stages.h"
#include "planner/search/space.h"
#include "planner/search/switched_plan.h"
#include "tools/launchable.h"
#include "tools/plan_report.h"
#include "tools/request.h"
#include "tools/table.h"
#include "topologies/cluster.h"
#include "topologies/node_groups.h"

namespace trireme::tools {
namespace {

using planner::Comparison;
using planner::Constraint;
using planner::ConstraintAxis;
using planner::Estimate;
using planner::Job;
using planner::SearchOptions;

constexpr std::int64_t kShortestSequence = 512;
constexpr std::int64_t kMostNodes = 64;  // times as many as there are

std::optional<Estimate> best_of(const Job& job, SearchOptions search) {
  search.best_only = true;
  search.keep_evaluated = false;
  search.progress = {};
  search.goal = planner::Goal::kTime;
  try {
    return planner::search(job, search).best;
  } catch (const Error&) {  // a job beside the one asked for that no search takes is no advice
    return std::nullopt;
  }
}

std::string fit_text(const Estimate& estimate) {
  return fmt::format("{}: {:.1f} to {:.1f} of {:.1f} GiB, {} a step",
                     planner::short_form(estimate.plan), estimate.memory.reserved_low_gib,
                     estimate.memory.reserved_high_gib, estimate.memory.capacity_gib,
                     duration_text(estimate.time.step_seconds));
}

Advice advice_of(std::string change, const Estimate& then) {
  return {std::move(change), fit_text(then), then.memory.fit};
}

void add_shorter(const Job& job, const SearchOptions& search, std::vector<Advice>& advice) {
  Job other = job;
  for (other.sequence /= 2; other.sequence >= kShortestSequence; other.sequence /= 2) {
    if (const auto best = best_of(other, search)) {
      advice.push_back(advice_of(fmt::format("--seq {}", other.sequence), *best));
      return;
    }
  }
}

// What the first of the nearest misses that can must put on the host, and the best layout then.
void add_offload(const Job& job, const SearchOptions& search, const std::vector<Estimate>& misses,
                 std::vector<Advice>& advice) {
  for (const Estimate& miss : misses) {
    const auto offload = planner::offload_that_fits(job, miss.plan);
    if (!offload) {
      continue;
    }
    Job other = job;
    other.offload = *offload;
    if (planner::check_plan(other, miss.plan)) {
      continue;
    }
    Estimate then;
    planner::Estimator(other).estimate(miss.plan, then);
    const auto best = best_of(other, search);
    advice.push_back(
        advice_of(fmt::format("--offload {}", planner::to_text(*offload)), best ? *best : then));
    return;
  }
}

// The fewest settings with which the first of the nearest misses fits, and the best layout then.
void add_settings(const Job& job, const SearchOptions& search, const std::vector<Estimate>& misses,
                  const std::vector<std::string>& given, std::vector<Advice>& advice) {
  for (const Estimate& miss : misses) {
    const auto then = planner::switches_that_fit(job, miss.plan, given);
    if (!then || then->estimate.memory.fit == planner::Fit::kNo) {
      continue;
    }
    std::string change;
    bool changes = false;
    for (const planner::SwitchGain& gain : then->switches) {
      change += fmt::format("{}--set {}", change.empty() ? "" : " ", gain.which.setting);
      changes |= gain.which.changes_numerics;
    }
    const auto best = best_of(then->job, search);
    advice.push_back(
        advice_of(change + (changes ? " (changes numerics)" : ""), best ? *best : then->estimate));
    return;
  }
}

void add_adapters(const Job& job, const SearchOptions& search, std::vector<Advice>& advice) {
  constexpr std::int64_t kRank = 16;  // LoRA's paper trains with 4 to 64
  if (job.training.has_adapters() || job.training.frozen_layers > 0) {
    return;
  }
  Job other = job;
  other.training.rank = kRank;
  if (const auto best = best_of(other, search)) {
    advice.push_back(advice_of(
        fmt::format("--lora-rank {} (trains adapters beside frozen weights)", kRank), *best));
  }
}

void add_larger(const Job& job, const SearchOptions& search, std::vector<Advice>& advice) {
  if (topologies::has_unlike_nodes(job.cluster) || !job.cluster.network.torus.empty()) {
    return;  // more of which nodes, only the file can say
  }
  if (job.cluster.node.nics == 0 || job.cluster.network.kind == topologies::Network::Kind::kNone) {
    return;  // nothing joins one node to another
  }
  Job other = job;
  for (std::int64_t times = 2; times <= kMostNodes; times *= 2) {
    other.cluster.nodes = job.cluster.nodes * times;
    other.cluster.gpus = other.cluster.nodes * other.cluster.node.gpus;
    if (other.global_batch % other.cluster.gpus != 0 && other.cluster.gpus > other.global_batch) {
      other.global_batch = other.cluster.gpus;
    }
    if (const auto best = best_of(other, search)) {
      const std::string batch = other.global_batch == job.global_batch
                                    ? ""
                                    : fmt::format(" with --global-batch {}", other.global_batch);
      advice.push_back(advice_of(
          fmt::format("{} GPUs ({} nodes){}", other.cluster.gpus, other.cluster.nodes, batch),
          *best));
      return;
    }
  }
}

const char* name_of(ConstraintAxis axis) {
  switch (axis) {
    case ConstraintAxis::kTensor:
      return "tp";
    case ConstraintAxis::kPipeline:
      return "pp";
    case ConstraintAxis::kVirtual:
      return "vpp";
    case ConstraintAxis::kContext:
      return "cp";
    case ConstraintAxis::kExpert:
      return "ep";
    case ConstraintAxis::kExpertTensor:
      return "etp";
    case ConstraintAxis::kSharded:
      return "fsdp";
    case ConstraintAxis::kReplicas:
      return "dp";
    case ConstraintAxis::kDataParallel:
      return "fsdp x dp";
    case ConstraintAxis::kMicroBatch:
      return "micro-batch";
    case ConstraintAxis::kMicroBatches:
      return "micro-batches";
  }
  return "";
}

const char* sign_of(Comparison comparison) {
  switch (comparison) {
    case Comparison::kLess:
      return "<";
    case Comparison::kLessEqual:
      return "<=";
    case Comparison::kEqual:
      return "";
    case Comparison::kGreaterEqual:
      return ">=";
    case Comparison::kGreater:
      return ">";
  }
  return "";
}

bool is_degree(ConstraintAxis axis) {
  return axis != ConstraintAxis::kVirtual && axis != ConstraintAxis::kMicroBatch &&
         axis != ConstraintAxis::kMicroBatches && axis != ConstraintAxis::kExpert &&
         axis != ConstraintAxis::kExpertTensor;
}

std::string text_of(const Constraint& wish) {
  return fmt::format("{} {}{}", name_of(wish.axis), sign_of(wish.comparison), wish.number);
}

// What the program cannot start, else the rule that most branches break, with the numbers of one.
std::string decisive(const planner::Space& space) {
  const auto& all = space.rejections;
  const auto most = std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.by == b.by ? a.count < b.count : a.by > b.by;
  });
  return most == all.end() ? "" : ": " + most->detail;
}

// Empty when the wish can be met by itself.
std::string why_alone(const Job& job, const SearchOptions& search, const Constraint& wish) {
  planner::Space space;
  planner::enumerate(job, {wish}, {}, space, search.accepts);
  if (space.layouts > 0) {
    return {};
  }
  const std::string name = text_of(wish);
  const std::int64_t gpus = job.cluster.gpus;
  if (wish.comparison == Comparison::kEqual && is_degree(wish.axis) && wish.number > 0 &&
      gpus % wish.number != 0) {
    return fmt::format("{} does not divide the {} GPUs; {} GPUs would be a multiple of it", name,
                       gpus, std::max(wish.number, gpus / wish.number * wish.number));
  }
  const auto& rejections = space.rejections;
  return rejections.empty() ? fmt::format("{} leaves no layout on {} GPUs", name, gpus)
                            : fmt::format("{}: {}", name, rejections.front().detail);
}

// Wishes of which each can be met by itself: the two that cannot be met together, and why.
std::string why_together(const Job& job, const SearchOptions& search) {
  const std::vector<Constraint>& wishes = search.constraints;
  for (auto one = wishes.begin(); one != wishes.end(); ++one) {
    for (auto other = one + 1; other != wishes.end(); ++other) {
      planner::Space space;
      planner::enumerate(job, {*one, *other}, {}, space, search.accepts);
      if (space.layouts == 0) {
        return fmt::format("{} and {} do not go together{}", text_of(*one), text_of(*other),
                           decisive(space));
      }
    }
  }
  planner::Space space;
  planner::enumerate(job, wishes, search.fixed, space, search.accepts);
  return "each wish can be met by itself, but no layout meets all of them" + decisive(space);
}

}  // namespace

std::vector<Advice> what_would_fit(const Job& job, const SearchOptions& search,
                                   const std::vector<Estimate>& misses,
                                   const std::vector<std::string>& given) {
  std::vector<Advice> advice;
  add_settings(job, search, misses, given, advice);
  if (!search.constraints.empty()) {
    SearchOptions free = search;
    free.constraints.clear();
    free.fixed = {};
    if (const auto best = best_of(job, free)) {
      advice.push_back(advice_of("another layout than the one asked for", *best));
    }
  }
  if (job.optimizer == planner::Optimizer::kAdam) {
    Job other = job;
    other.optimizer = planner::Optimizer::kAdam8bit;
    if (const auto best = best_of(other, search)) {
      advice.push_back(advice_of("--optimizer adam8bit (changes numerics)", *best));
    }
  }
  add_offload(job, search, misses, advice);
  add_adapters(job, search, advice);
  add_shorter(job, search, advice);
  add_larger(job, search, advice);
  return advice;
}

std::vector<std::string> why_empty(const Job& job, const SearchOptions& search) {
  std::vector<std::string> reasons;
  for (const Constraint& wish : search.constraints) {
    if (std::string reason = why_alone(job, search, wish); !reason.empty()) {
      reasons.push_back(std::move(reason));
    }
  }
  if (reasons.empty() && !search.constraints.empty()) {
    reasons.push_back(why_together(job, search));
  }
  if (reasons.empty()) {
    planner::Space space;
    planner::enumerate(job, {}, search.fixed, space, search.accepts);
    reasons.push_back("no layout of that kind" + decisive(space));
  }
  return reasons;
}

std::vector<std::string> near_sizes(const Job& job, const SearchOptions& search,
                                    double step_seconds) {
  constexpr double kWorth = 0.95;            // of the seconds a token
  constexpr std::int64_t kEvenTokens = 256;  // what kernels and sequence parallelism like
  std::vector<std::string> remarks;
  const auto tokens = [](const Job& one) {
    return static_cast<double>(one.global_batch) * static_cast<double>(one.sequence);
  };
  // The size that the job has, and those near it that are faster a token: in one remark.
  const auto add = [&](const char* what, std::int64_t Job::*size,
                       const std::vector<std::int64_t>& near) {
    std::string better;
    for (const std::int64_t other_size : near) {
      Job other = job;
      other.*size = other_size;
      const auto best = best_of(other, search);
      if (best && best->time.step_seconds / tokens(other) < kWorth * step_seconds / tokens(job)) {
        better += fmt::format(", {} {} ({})", other_size, duration_text(best->time.step_seconds),
                              planner::short_form(best->plan));
      }
    }
    if (!better.empty()) {
      remarks.push_back(fmt::format("{} {} divides badly: it takes {}{}", what, job.*size,
                                    duration_text(step_seconds), better));
    }
  };
  const std::int64_t step = job.cluster.gpus;
  if (job.global_batch % step != 0) {
    const std::int64_t below = job.global_batch / step * step;
    add("batch", &Job::global_batch,
        below > 0 ? std::vector{below, below + step} : std::vector{below + step});
  }
  if (job.sequence % kEvenTokens != 0 && job.sequence > kEvenTokens) {
    add("sequence", &Job::sequence, {(job.sequence + kEvenTokens / 2) / kEvenTokens * kEvenTokens});
  }
  return remarks;
}

std::vector<Elsewhere> elsewhere(const JobOptions& options, const Job& asked, SearchOptions search,
                                 bool switches, bool batch_assumed) {
  constexpr std::pair<const char*, const char*> kPrograms[] = {{"Megatron", "megatron"},
                                                               {"torchtitan", "torchtitan"},
                                                               {"DeepSpeed", "deepspeed"},
                                                               {"accelerate", "accelerate"}};
  // What changes numerics is not offered here, and need not be searched for.
  std::vector<std::string> decided = decided_switches(options);
  decided.insert(decided.end(), {"precision", "grad_dtype"});
  search.keep_evaluated = false;
  search.progress = {};
  std::vector<Elsewhere> found;
  for (const auto& [program, framework] : kPrograms) {
    Elsewhere& entry = found.emplace_back();
    entry.program = program;
    entry.framework = framework;
    try {
      JobOptions named = options;
      named.framework = framework;
      Job job = make_job(named);
      job.global_batch = asked.global_batch;
      const auto look = [&] {
        return std::move(search_recommended(job, search, decided, switches).answer.found.result);
      };
      planner::SearchResult result = look();
      if (result.space == 0 && use_fewer_gpus(job, search, batch_assumed)) {
        result = look();
      }
      if (result.best) {
        entry.layout = planner::short_form(result.best->plan);
        entry.step_seconds = result.best->time.step_seconds;
      } else {
        entry.reason = result.space > 0 ? "nothing fits" : "no layout is legal";
      }
    } catch (const Error& error) {  // it does not take the job
      entry.reason = error.what();
    }
  }
  return found;
}

}  // namespace trireme::tools
