#include "tools/launchable.h"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "core/error.h"
#include "planner/launch/export.h"
#include "planner/launch/refusals.h"
#include "planner/plan/narrow.h"
#include "planner/search/recommend.h"

namespace trireme::tools {
namespace {

planner::SwitchedSearch look(const planner::Job& job, const planner::SearchOptions& options,
                             const std::vector<std::string>& given, bool switches) {
  if (switches) {
    return planner::search_with_switches(job, options, given);
  }
  return {.job = job, .result = planner::search(job, options), .switches = {}};
}

// Of what a format can start, the layouts of one job: as each sharding settles the job.
class LaunchTrial {
 public:
  LaunchTrial(planner::Job job, planner::LaunchFormat format) : format_(format) {
    job.profile = {};  // in no launch file, and most of what a copy of a job takes
    for (std::size_t i = 0; i < launches_.size(); ++i) {
      planner::LaunchPlan& launch = launches_[i];
      launch.job = job;
      launch.plan.sharding = static_cast<planner::Sharding>(i);
      try {
        planner::set_hosts(launch);
      } catch (const Error&) {  // of any layout: `export_refusal` says it
        launch.processes_per_host = job.cluster.node.gpus;
      }
      planner::settle_launched_job(format, launch);
    }
  }

  [[nodiscard]] bool takes(const planner::Plan& plan) const {
    return planner::takes_layout(format_, launched(plan));
  }
  [[nodiscard]] std::string refusal(const planner::Plan& plan) const {
    return planner::layout_refusal(format_, launched(plan));
  }

 private:
  [[nodiscard]] planner::Launched launched(const planner::Plan& plan) const {
    const planner::LaunchPlan& launch = launches_.at(static_cast<std::size_t>(plan.sharding));
    return {launch.job, plan, launch.processes_per_host};
  }

  planner::LaunchFormat format_;
  std::array<planner::LaunchPlan, 4> launches_;  // by Sharding
};

planner::Acceptance acceptance(const planner::Job& job, planner::LaunchFormat format) {
  const auto trial = std::make_shared<const LaunchTrial>(job, format);
  return {.layout = [trial](const planner::Plan& plan) { return trial->takes(plan); },
          .refusal = [trial](const planner::Plan& plan) { return trial->refusal(plan); }};
}

// The format of the framework's users; trireme has several.
std::optional<planner::LaunchFormat> own_format(const planner::Framework& framework) {
  if (framework.sharder == planner::Sharder::kTrireme) {
    return std::nullopt;
  }
  return planner::default_launch_format(framework.name, framework.base);
}

// Of this project's framework `run` starts what it plans: the layouts that multiply in 8 bits
// there.
planner::Acceptance what_runs(const planner::Job& job) {
  if (job.precision != topologies::Precision::kFp8) {
    return {};
  }
  const auto asked = std::make_shared<planner::Job>(job);
  asked->profile = {};
  const auto refusal = [asked](const planner::Plan& plan) {
    return planner::narrow_refusal(*asked, plan);
  };
  return {.layout = [refusal](const planner::Plan& plan) { return refusal(plan).empty(); },
          .refusal = refusal};
}

// What no layout of the job mends, and who says no; empty: nothing.
std::string refusal_of_any(const planner::Job& job, const planner::Plan& plan) {
  const bool own = !own_format(job.framework);
  const std::string refusal = own ? planner::narrow_refusal(job) : export_refusal(job, plan);
  return refusal.empty() ? ""
                         : fmt::format("`{}` would refuse it, and every other: {}",
                                       own ? "run" : "export", refusal);
}

// Puts what an engineer would start with first, with its own gains of the switches. Returns why it
// is not the fastest.
std::string put_first(const planner::Job& job, const planner::SearchOptions& options,
                      planner::SwitchedSearch& found) {
  const planner::Estimate fastest = *found.result.best;
  std::string reason = planner::recommend(found.job, found.result);
  if (!(found.result.best->plan == fastest.plan)) {
    planner::measure_gains(job, options, fastest, found);
  }
  return reason;
}

}  // namespace

std::string export_refusal(const planner::Job& job, const planner::Plan& plan,
                           planner::LaunchFormat format) {
  planner::LaunchPlan launch;
  launch.job = job;
  launch.plan = plan;
  try {
    planner::launched_framework(format, job.framework, plan.sharding);
    planner::set_hosts(launch);
    planner::settle_launched_job(format, launch);
    planner::write_launch(format, launch);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

std::string export_refusal(const planner::Job& job, const planner::Plan& plan) {
  const auto format = own_format(job.framework);
  return format ? export_refusal(job, plan, *format) : std::string();
}

planner::Acceptance what_starts(const planner::Job& job) {
  const auto format = own_format(job.framework);
  return format ? acceptance(job, *format) : what_runs(job);
}

LaunchableSearch search_launchable(const planner::Job& job, planner::SearchOptions options,
                                   const std::vector<std::string>& given, bool switches) {
  options.accepts = what_starts;
  LaunchableSearch answer{.found = look(job, options, given, switches), .remark = {}};
  if (!answer.found.result.best) {
    return answer;
  }
  // Rows of layouts have been asked.
  answer.remark = refusal_of_any(answer.found.job, answer.found.result.best->plan);
  return answer;
}

Recommended search_recommended(const planner::Job& job, planner::SearchOptions options,
                               const std::vector<std::string>& given, bool switches) {
  options.accepts = what_starts;
  Recommended best{.answer = search_launchable(job, options, given, switches), .reason = {}};
  const bool by_time = options.goal == planner::Goal::kTime || options.goal == planner::Goal::kCost;
  planner::SwitchedSearch& found = best.answer.found;
  if (by_time && found.result.best) {
    best.reason = put_first(job, options, found);
  }
  return best;
}

Recommended search_for_format(const planner::Job& job, planner::SearchOptions options,
                              std::vector<std::string> given, planner::LaunchFormat format) {
  given.insert(given.end(), {"precision", "grad_dtype"});
  options.accepts = [format](const planner::Job& asked) { return acceptance(asked, format); };
  Recommended best{.answer = {.found = look(job, options, given, true), .remark = {}},
                   .reason = {}};
  planner::SwitchedSearch& found = best.answer.found;
  if (found.result.best && !export_refusal(found.job, found.result.best->plan, format).empty()) {
    found.result.best.reset();  // nor any other
  }
  if (found.result.best) {
    best.reason = put_first(job, options, found);
  }
  return best;
}

std::vector<std::string> decided_switches(const JobOptions& options) {
  std::vector<std::string> keys;
  for (const std::string& setting : options.settings) {
    keys.push_back(setting.substr(0, setting.find('=')));
  }
  if (!options.precision.empty()) {
    keys.emplace_back("precision");
  }
  return keys;
}

std::string fine_tuning_refusal(const planner::Job& job) {
  const bool tunes = job.training.has_adapters() || job.training.frozen_layers > 0 ||
                     job.training.reference || !job.training.lengths.empty();
  return tunes ? "adapters, frozen layers, reference models and sample lengths are not written to "
                 "launch files yet"
               : "";
}

}  // namespace trireme::tools
