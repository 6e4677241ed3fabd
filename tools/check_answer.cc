#include "tools/check_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/parallel.h"
#include "planner/launch/export.h"
#include "planner/launch/megatron/megatron.h"
#include "planner/launch/read_launch.h"
#include "planner/plan/rules.h"
#include "planner/search/search.h"
#include "planner/start/launch_switches.h"
#include "planner/start/trainer_rules.h"
#include "tools/export_command.h"
#include "tools/launchable.h"
#include "tools/switches_report.h"

namespace trireme::tools {
namespace {

constexpr double kClose = 1.02;       // of the best step: nothing better is shown
constexpr double kWorthAWord = 1e-3;  // of a step

// The keys of KEY=VALUE settings.
std::vector<std::string> keys_of(const std::vector<std::string>& settings) {
  std::vector<std::string> keys;
  keys.reserve(settings.size());
  for (const std::string& setting : settings) {
    keys.push_back(setting.substr(0, setting.find('=')));
  }
  return keys;
}

// The step of the file's own layout with the switches that the better one has.
double own_step(const CheckReport& report, const planner::Job& switched) {
  planner::Estimate own;
  planner::Estimator(switched).estimate(report.found.plan, own);
  return std::min(own.time.step_seconds, report.estimate->time.step_seconds);
}

// The format that can start the file's framework: accelerate's plugins are written as those
// programs' own files.
planner::LaunchFormat written_format(const CheckReport& report) {
  const planner::Framework& framework = report.found.job.framework;
  try {
    planner::launched_framework(report.config.format, framework, report.found.plan.sharding);
    return report.config.format;
  } catch (const Error&) {
    return planner::default_launch_format(framework.name, framework.base);
  }
}

// What makes the better plan of the same file, where all that is new stands outside of it: the
// training script recomputes, the environment has the allocator's switch. Empty where the file
// itself would be another.
std::string change_beside(const CheckReport& report, const planner::SwitchedSearch& found,
                          planner::Plan better) {
  const planner::Plan& own = report.found.plan;
  const planner::LaunchFormat format = report.config.format;
  std::vector<std::string_view> changes;
  if (report.found.recompute_is_open && better.recompute != own.recompute) {
    changes.push_back(better.recompute == planner::Recompute::kFull
                          ? planner::with_recompute(format, report.config.framework)
                          : planner::without_recompute(format, report.config.framework));
    better.recompute = own.recompute;
    better.recompute_layers = own.recompute_layers;
    better.recompute_modules = own.recompute_modules;
  }
  for (const planner::SwitchGain& gain : found.switches) {
    if (is_applied(gain) && planner::is_beside(format, gain.which.flag)) {
      changes.push_back(gain.which.flag);
    } else if (is_applied(gain)) {
      return {};
    }
  }
  return better == own ? fmt::format("{}", fmt::join(changes, ", ")) : "";
}

// The best plan of the same job in the same framework that a file of the format can say, unless the
// configuration is as good.
void search_better(const CheckRequest& request, const std::function<void(double)>& progress,
                   CheckReport& report) {
  planner::SearchOptions search;
  search.threads = usable_threads();
  search.progress = progress;
  const planner::LaunchFormat format = written_format(report);
  planner::SwitchedSearch found = std::move(
      search_for_format(report.found.job, search, keys_of(request.launch.settings), format)
          .answer.found);
  if (!found.result.best) {
    return;
  }
  const planner::Estimate& best = *found.result.best;
  const bool fits = report.estimate && report.estimate->memory.fit != planner::Fit::kNo;
  const bool legal = !planner::check_plan(found.job, report.found.plan);
  const double step = !fits   ? 0
                      : legal ? own_step(report, found.job)
                              : report.estimate->time.step_seconds;
  if (fits && step <= kClose * best.time.step_seconds) {
    return;
  }
  report.better_refusal = fine_tuning_refusal(found.job);
  report.better_beside = change_beside(report, found, best.plan);
  if (report.better_refusal.empty() && report.better_beside.empty()) {
    report.better_command = export_command(request, report, found, best.plan, format);
  }
  report.better = best;
  report.better_job = std::move(found.job);
  for (const planner::SwitchGain& gain : found.switches) {
    if (is_applied(gain)) {
      report.better_switches.push_back(gain);
    }
  }
}

// Switches that the framework's own start-up rules refuse, by themselves or beside better ones, are
// no advice.
void keep_switches_that_hold(const CheckRequest& request, CheckReport& report) {
  std::vector<planner::LaunchSwitch> switches;
  for (const planner::SwitchGain& gain : report.switches) {
    switches.push_back({gain.which.flag, gain.which.setting});
  }
  const std::vector<bool> hold =
      planner::switches_that_hold(report.config, request.launch, switches);
  std::vector<planner::SwitchGain> kept;
  for (std::size_t i = 0; i < hold.size(); ++i) {
    if (hold[i]) {
      kept.push_back(report.switches[i]);
    }
  }
  report.switches = std::move(kept);
}

// The same plan without what costs time and may not be needed (recompute, offload); where it is too
// large with optimizer states sharded, and with every layer recomputed.
void add_what_can_go(CheckReport& report) {
  const planner::LaunchFormat format = report.config.format;
  const planner::Estimate& now = *report.estimate;
  const auto add = [&](planner::Switch which, const planner::Job& job, const planner::Plan& plan) {
    planner::Estimate then;
    planner::Estimator(job).estimate(plan, then);
    const double gain = now.time.step_seconds - then.time.step_seconds;
    const bool decides = now.memory.fit != planner::Fit::kFits;
    if (then.memory.fit == planner::Fit::kFits &&
        (decides || gain > kWorthAWord * now.time.step_seconds)) {
      report.switches.push_back({.which = which,
                                 .gain_seconds = gain,
                                 .decides_fit = decides,
                                 .fit_without = now.memory.fit,
                                 .makes_fit = decides});
    }
  };
  const std::string_view distributed = planner::sharded_optimizer(format);
  if (now.memory.fit != planner::Fit::kFits && !distributed.empty() &&
      report.found.job.framework.sharder == planner::Sharder::kBuffers &&
      report.found.plan.sharding == planner::Sharding::kNone) {
    planner::Plan sharded = report.found.plan;
    sharded.sharding = planner::Sharding::kOptimizer;
    std::swap(sharded.sharded, sharded.replicas);
    if (!planner::check_plan(report.found.job, sharded)) {
      add({"optimizer states sharded", "sharding=optimizer", distributed}, report.found.job,
          sharded);
    }
  }
  const std::string_view recompute = planner::with_recompute(format, report.config.framework);
  if (now.memory.fit != planner::Fit::kFits && !recompute.empty()) {
    add({"every layer recomputed", "recompute=full", recompute}, report.found.job,
        recomputed(report.found.plan));
  }
  if (report.found.plan.recompute != planner::Recompute::kNone) {
    planner::Plan kept = report.found.plan;
    kept.recompute = planner::Recompute::kNone;
    kept.recompute_layers = -1;
    kept.recompute_modules = 0;
    add({"no recompute", "recompute=none",
         planner::without_recompute(format, report.config.framework)},
        report.found.job, kept);
  }
  if (report.found.job.offload.any()) {
    planner::Job stays = report.found.job;
    stays.offload = {};
    add({"no offload", "offload=none", planner::without_offload(format, report.config.framework)},
        stays, report.found.plan);
  }
}

// Switches in the words of the program whose run it is.
// Those that it has no word for are none of its.
void spell_for_trainer(const planner::LaunchConfig& config, std::deque<std::string>& words,
                       std::vector<planner::SwitchGain>& gains) {
  std::vector<planner::SwitchGain> kept;
  for (planner::SwitchGain gain : gains) {
    const bool has_flag = !gain.which.flag.empty();
    const std::string_view own = planner::trainer_spelling(config, gain.which.setting);
    if (own.empty()) {
      words.push_back(planner::in_own_words(config, gain.which.flag));
    }
    gain.which.flag = own.empty() ? std::string_view(words.back()) : own;
    if (!has_flag || !gain.which.flag.empty()) {
      kept.push_back(gain);
    }
  }
  gains = std::move(kept);
}

// The file with other branches of what it leaves open; those that make no job are left out.
std::vector<CheckReport> read_branches(const CheckRequest& request,
                                       std::optional<planner::LaunchFormat> format) {
  constexpr int kBranches = 4;  // the first three of every condition, and none of them
  std::vector<CheckReport> readings;
  for (int branch = 0; branch < kBranches; ++branch) {
    try {
      CheckReport reading;
      reading.config = planner::read_launch_file(request.file, format, request.arguments, branch);
      reading.found = planner::make_launch_case(reading.config, request.launch);
      reading.rules = planner::check_launch(reading.config, reading.found);
      readings.push_back(std::move(reading));
    } catch (const Error&) {
      continue;
    }
  }
  return readings;
}

bool fits(const CheckReport& reading) {
  if (!reading.rules.layout_holds) {
    return false;
  }
  planner::Estimate estimate;
  planner::Estimator(reading.found.job).estimate(reading.found.plan, estimate);
  return estimate.memory.fit != planner::Fit::kNo;
}

void judge(const CheckRequest& request, std::optional<planner::LaunchFormat> format,
           CheckReport& report) {
  std::vector<CheckReport> branches;
  if (!report.config.undecided.empty()) {
    branches = read_branches(request, format);
    std::vector<planner::RuleReport> rules;
    rules.reserve(branches.size());
    for (const CheckReport& branch : branches) {
      rules.push_back(branch.rules);
    }
    if (!rules.empty()) {
      planner::soften_open_errors(report.config, rules, report.rules);
    }
  }
  if (!report.config.unreadable.empty()) {
    report.verdict = {false,
                      fmt::format("arguments could not be worked out: {}; write what they come to, "
                                  "or give it after --",
                                  fmt::join(report.config.unreadable, ", "))};
    return;
  }
  if (report.rules.layout_holds) {
    report.estimate.emplace();
    planner::Estimator(report.found.job).estimate(report.found.plan, *report.estimate);
    report.verdict = verdict_of(report.config, report.found, *report.estimate,
                                std::any_of(branches.begin(), branches.end(), fits));
  }
}

}  // namespace

CheckReport check_file(const CheckRequest& request, const std::function<void(double)>& progress) {
  if (request.launch.cluster.empty()) {
    throw Error(
        "--cluster",
        "is missing; give a preset with a node count (dgx-h100x8, see 'trireme clusters') or a "
        "topology file");
  }
  std::optional<planner::LaunchFormat> format;
  if (!request.format.empty()) {
    format = planner::launch_format_of(request.format);
  }
  CheckReport report;
  report.config = planner::read_launch_file(request.file, format, request.arguments);
  report.found = planner::make_launch_case(report.config, request.launch);
  report.rules = planner::check_launch(report.config, report.found);
  if (planner::leaves_degrees_to_recipe(report.config) && !report.rules.layout_holds) {
    throw Error(report.config.source,
                fmt::format("its recipe sets the degrees, which are not in the file; they after -- "
                            "(model.tensor_model_parallel_size=1 model.context_parallel_size=8 …) "
                            "would be right: without any {}",
                            report.rules.violations.front().detail));
  }
  judge(request, format, report);
  if (report.config.unreadable.empty()) {
    if (report.estimate && !planner::check_plan(report.found.job, report.found.plan)) {
      report.switches = planner::switch_gains(report.found.job, report.found.plan,
                                              keys_of(request.launch.settings));
      keep_switches_that_hold(request, report);
      add_what_can_go(report);
    }
    search_better(request, progress, report);
  }
  spell_for_trainer(report.config, *report.own_words, report.switches);
  spell_for_trainer(report.config, *report.own_words, report.better_switches);
  return report;
}

}  // namespace trireme::tools
