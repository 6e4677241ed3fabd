#include "tools/whatif_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "planner/cost/time_items.h"
#include "planner/plan/names.h"
#include "planner/plan/rules.h"
#include "planner/search/search.h"
#include "planner/search/switched_plan.h"
#include "tools/fault_options.h"
#include "tools/launchable.h"
#include "tools/plan_advice.h"
#include "tools/plan_file.h"
#include "tools/plan_report.h"
#include "tools/report.h"
#include "tools/request.h"
#include "tools/simulation.h"
#include "tools/table.h"
#include "tools/whatif_notes.h"

namespace trireme::tools {
namespace {

using planner::Estimate;
using planner::Job;
using planner::Plan;

Estimate estimated(const Job& job, const Plan& plan, bool simulate) {
  if (simulate) {
    sim::SimulateOptions options;
    options.record_trace = false;
    return simulate_plan(job, plan, options).estimate;
  }
  Estimate estimate;
  planner::Estimator(job).estimate(plan, estimate);
  return estimate;
}

// As `plan` answers; `given` are the keys on which somebody has decided. The job becomes that with
// its switches.
void plan_case(const LayoutOptions& layout, const std::vector<std::string>& given, int threads,
               WhatIfCase& mine) {
  refuse_absent_modules(mine.job.model, make_plan(layout, std::nullopt));
  planner::SearchOptions search;
  fix_layout(layout, search);
  search.threads = threads;
  search.accepts = what_starts;
  mine.asked = mine.job.framework;
  LaunchableSearch answer = std::move(search_recommended(mine.job, search, given, true).answer);
  if (!answer.remark.empty()) {
    mine.notes.push_back(std::move(answer.remark));
  }
  planner::SwitchedSearch& found = answer.found;
  mine.job = std::move(found.job);
  mine.switches = std::move(found.switches);
  mine.estimate = std::move(found.result.best);
  if (mine.estimate) {
    return;
  }
  if (found.result.space == 0) {
    mine.notes.push_back(
        fmt::format("no layout is legal: {}", fmt::join(why_empty(mine.job, search), "; ")));
  } else if (!found.result.nearest_misses.empty()) {
    const Estimate& nearest = found.result.nearest_misses.front();
    mine.notes.push_back(fmt::format("no layout fits; the nearest, {}: {}",
                                     planner::short_form(nearest.plan),
                                     planner::memory_detail(nearest.memory)));
  } else {
    mine.notes.emplace_back("no layout fits");
  }
}

bool gives_layout(const WhatIfRequest& request) {
  const LayoutOptions& o = request.layout;
  return !request.plan_file.empty() || !o.layout.empty() || o.tensor || o.pipeline ||
         o.virtual_pipeline || o.replicas || o.sharded || o.context || o.expert ||
         o.data_parallel || !o.sharding.empty() || !o.schedule.empty() || !o.stage_layers.empty();
}

// The options of the base's job, a plan file's among them.
JobOptions options_of(const WhatIfRequest& request) {
  return request.plan_file.empty() ? request.job
                                   : merged(read_plan_file(request.plan_file).options, request.job);
}

// Scaling a resource by this much either way; small enough to be local, large enough to step over a
// table's corners.
constexpr double kNudge = 1.1;

Elasticities elasticities(const Job& job, const Plan& plan) {
  Elasticities result;
  const auto step = [&](const std::string& name, double factor) {
    Job nudged = job;
    apply_to_machine({name, fmt::format("{:.17g}x", factor)}, nudged);
    return estimated(nudged, plan, false).time.step_seconds;
  };
  for (const std::string& name : resource_names()) {
    const double change = std::log(step(name, kNudge)) - std::log(step(name, 1 / kNudge));
    result[name] = change / (2 * std::log(kNudge));
  }
  return result;
}

// What varies is no longer said by --layout: "tp2.fsdp4.mb1" without "tp2".
void leave_out(const std::string& name, std::string& layout) {
  const std::string begin = name == "micro_batch" ? "mb" : name == "recompute" ? "rc-" : name;
  std::string rest;
  std::string parts = layout + ".";
  for (std::size_t cut = parts.find('.'); cut != std::string::npos; cut = parts.find('.')) {
    const std::string part = parts.substr(0, cut);
    const std::string number = part.substr(std::min(begin.size(), part.size()));
    const bool degree =
        !number.empty() && number.find_first_not_of("0123456789") == std::string::npos;
    const bool says = name == "schedule" ? planner::kScheduleNames.value_of(part).has_value()
                                         : part.starts_with(begin) && (degree || begin == "rc-");
    rest += says || part.empty() ? "" : (rest.empty() ? "" : ".") + part;
    parts.erase(0, cut + 1);
  }
  layout = rest;
}

// A framework made anew for another precision keeps the switches that the base has on; another
// framework has others.
void keep_switches(const WhatIfCase& base, const Change& change, planner::Framework& framework) {
  if (change.name != "precision") {
    return;
  }
  for (const planner::SwitchGain& gain : base.switches) {
    if (gain.applied) {
      const std::string setting(gain.which.setting);
      const auto cut = setting.find('=');
      apply_setting(framework, setting.substr(0, cut), setting.substr(cut + 1));
    }
  }
}

// The base's layout on the changed job: data parallelism takes up what GPUs are added or taken
// away, and what degrees that vary leave.
Plan kept(const Plan& base, const Job& job, const LayoutOptions& layout,
          const std::vector<Change>& changes) {
  LayoutOptions changed;
  for (const Change& change : changes) {
    changed.micro_batch = change.name == "micro_batch" ? layout.micro_batch : changed.micro_batch;
    changed.recompute = change.name == "recompute" ? layout.recompute : changed.recompute;
    changed.schedule = change.name == "schedule" ? layout.schedule : changed.schedule;
    if (const auto degree = axis_of(change.name)) {
      changed.*degree = layout.*degree;
    }
  }
  Plan plan = base;
  plan.tensor = changed.tensor.value_or(plan.tensor);
  plan.pipeline = changed.pipeline.value_or(plan.pipeline);
  plan.context = changed.context.value_or(plan.context);
  plan.sharded = changed.sharded.value_or(plan.sharded);
  plan.replicas = changed.replicas.value_or(plan.replicas);
  if (changed.pipeline || changed.virtual_pipeline) {
    plan.stage_layers.clear();  // they were of the base's stages
  }
  if (job.cluster.gpus != plan.gpus()) {
    const bool by_sharded =
        changed.replicas || (plan.sharding != planner::Sharding::kNone && !changed.sharded);
    std::int64_t& ranks = by_sharded ? plan.sharded : plan.replicas;
    const std::int64_t others = plan.gpus() / ranks;
    if (job.cluster.gpus % others != 0) {
      throw Error("gpus", fmt::format("{} GPUs are no multiple of the layout's {}",
                                      job.cluster.gpus, others));
    }
    ranks = job.cluster.gpus / others;
  }
  return make_plan(changed, job.cluster.gpus, plan);
}

// Faults stretch the closed form by what they stretch the simulated step.
void apply_faults(const std::vector<Change>& changes, WhatIfCase& mine) {
  FaultOptions faults;
  for (const Change& change : changes) {
    if (change.name == "straggler") {
      faults.stragglers.push_back(change.value);
    } else if (change.name == "slow_link") {
      faults.slow_links.push_back(change.value);
    }
  }
  if (faults.stragglers.empty() && faults.slow_links.empty()) {
    return;
  }
  sim::SimulateOptions options;
  options.record_trace = false;
  const double sound = simulate_plan(mine.job, mine.estimate->plan, options).step_seconds;
  options.faults = make_faults(faults);
  const SimulatedStep faulty = simulate_plan(mine.job, mine.estimate->plan, options);
  if (!faulty.simulation.deadlock.empty()) {
    mine.estimate.reset();
    mine.notes.push_back("the step never ends: " + faulty.simulation.deadlock.substr(
                                                       0, faulty.simulation.deadlock.find('\n')));
    return;
  }
  const double ratio = faulty.step_seconds / sound;
  planner::TimeEstimate& time = mine.estimate->time;
  time.exposed.other += time.step_seconds * (ratio - 1);
  time.step_seconds *= ratio;
  time.low_seconds *= ratio;
  time.high_seconds *= ratio;
  planner::Throughput& t = mine.estimate->throughput;
  for (double* rate : {&t.tokens_per_second, &t.tokens_per_second_per_gpu, &t.model_tflops_per_gpu,
                       &t.mfu, &t.hfu, &t.mfu_full_attention}) {
    *rate /= ratio;
  }
  mine.notes.push_back(fmt::format("the fault stretches the simulated step from {} to {}",
                                   duration_text(sound), duration_text(faulty.step_seconds)));
}

}  // namespace

double dollars_per_million_tokens(const WhatIfCase& mine) {
  return mine.estimate ? mine.dollars_per_gpu_hour / 3600 * 1e6 /
                             mine.estimate->throughput.tokens_per_second_per_gpu
                       : 0;
}

double break_even_price(const WhatIfCase& base, const WhatIfCase& mine) {
  return mine.estimate
             ? base.dollars_per_gpu_hour * mine.estimate->throughput.tokens_per_second_per_gpu /
                   base.estimate->throughput.tokens_per_second_per_gpu
             : 0;
}

WhatIfCase work_out_base(const WhatIfRequest& request, int threads) {
  WhatIfCase base;
  base.step_ratio = 1;
  base.dollars_per_gpu_hour = request.dollars_per_gpu_hour;
  if (gives_layout(request)) {
    const Request given = make_request(request.plan_file, request.job, request.layout);
    base.job = given.job;
    base.asked = given.job.framework;
    if (request.plan_file.empty() && request.keep_layout) {  // as `plan` says of it
      planner::SwitchedPlan on =
          planner::switched_for(given.job, given.plan, decided_switches(request.job));
      base.job = std::move(on.job);
      base.switches = std::move(on.switches);
    }
    if (request.keep_layout || !request.plan_file.empty()) {
      base.estimate = estimated(base.job, given.plan, request.simulate);
    }
  } else {
    base.job = make_job(request.job);
    base.job.global_batch =
        base.job.global_batch > 0 ? base.job.global_batch : base.job.cluster.gpus;
    base.asked = base.job.framework;
  }
  if (!base.estimate) {
    plan_case(request.layout, decided_switches(request.job), threads, base);
    if (base.estimate && request.simulate) {
      base.estimate = estimated(base.job, base.estimate->plan, true);
    }
  }
  if (!base.estimate) {
    throw Error("whatif", "no layout of the base fits; see trireme plan for the reasons");
  }
  base.elasticity = elasticities(base.job, base.estimate->plan);
  return base;
}

// The base's job with what the options change of it, so that a plan file's job carries over, and
// its price. `keeps`: with the base's layout, and so its switches.
void change_job(const WhatIfCase& base, const std::vector<Change>& changes,
                const JobOptions& options, bool keeps, WhatIfCase& mine) {
  mine.job = base.job;
  mine.job.sequence = options.sequence.value_or(base.job.sequence);
  mine.job.global_batch = options.global_batch.value_or(base.job.global_batch);
  if (!keeps) {  // what is planned again has its own switches
    mine.job.framework = base.asked;
  }
  for (const Change& change : changes) {
    if (change.name == "precision" || change.name == "framework") {
      const Job other = make_job(options);
      mine.job.precision = other.precision;
      mine.job.framework = other.framework;
      mine.job.offload = other.offload;
      if (keeps) {
        keep_switches(base, change, mine.job.framework);
      }
    }
  }
  mine.dollars_per_gpu_hour = base.dollars_per_gpu_hour;
  for (const Change& change : changes) {
    apply_to_machine(change, mine.job);
    if (change.name == "cluster" || change.name == "gpu") {
      mine.dollars_per_gpu_hour = change.dollars_per_gpu_hour;  // another machine, another price
    }
  }
}

WhatIfCase work_out_case(const WhatIfRequest& request, const WhatIfCase& base,
                         const std::vector<Change>& changes) {
  WhatIfCase mine;
  mine.changes = changes;
  JobOptions options = options_of(request);
  LayoutOptions layout = request.layout;
  for (const Change& change : changes) {
    apply_to_options(change, options, layout);
    leave_out(change.name, layout.layout);
    if (change.name == "recompute") {  // they were of the base's
      layout.recompute_layers.reset();
      layout.recompute_modules.clear();
    }
  }
  const bool only_faults = std::all_of(changes.begin(), changes.end(), [](const Change& change) {
    return change.name == "straggler" || change.name == "slow_link";
  });
  const bool keeps = request.keep_layout || only_faults;
  change_job(base, changes, options, keeps, mine);
  if (keeps) {
    try {
      Plan plan = kept(base.estimate->plan, mine.job, layout, changes);
      complete(mine.job, plan);
      mine.estimate = estimated(mine.job, plan, request.simulate);
    } catch (const Error& error) {
      mine.notes.push_back(fmt::format("the layout cannot be kept: {}", error.what()));
      return mine;
    }
    drop_what_cannot_be_said(base, "the layout cannot be kept", mine);
  } else {
    plan_case(layout, decided_switches(options), 1, mine);
    drop_what_cannot_be_said(base, "no layout that it can be told", mine);
    if (!mine.estimate) {
      return mine;
    }
    if (request.simulate) {
      mine.estimate = estimated(mine.job, mine.estimate->plan, true);
    }
    const bool same_framework = full_name(mine.job.framework) == full_name(base.job.framework);
    if (request.plan_file.empty() && same_framework) {  // a file's are settings
      add_switch_notes(base, mine);
    }
  }
  apply_faults(changes, mine);
  if (mine.estimate) {
    mine.step_ratio = mine.estimate->time.step_seconds / base.estimate->time.step_seconds;
    mine.elasticity = elasticities(mine.job, mine.estimate->plan);
    add_notes(base, mine);
  }
  return mine;
}

WhatIfCase try_case(const WhatIfRequest& request, const WhatIfCase& base,
                    const std::vector<Change>& changes) {
  try {
    return work_out_case(request, base, changes);
  } catch (const Error& error) {
    WhatIfCase none;
    none.changes = changes;
    none.notes.emplace_back(error.what());
    return none;
  }
}

}  // namespace trireme::tools
