#include "tools/launchable.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/error.h"
#include "planner/launch/export.h"
#include "planner/launch/refusal_tables.h"
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

// What `export` would say no with, of many plans of one job.
class ExportTrial {
 public:
  ExportTrial(const planner::Job& job, planner::LaunchFormat format) : format_(format) {
    launch_.job = job;
    launch_.job.profile = {};  // in no launch file, and most of what a copy of a job takes
  }

  [[nodiscard]] std::string refusal(const planner::Plan& plan) const {
    try {
      planner::write_launch(format_, settled(plan));
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }

  // The same without words, which take most of the time where most plans are refused.
  [[nodiscard]] bool refuses(const planner::Plan& plan) const {
    try {
      const planner::LaunchPlan launch = settled(plan);
      if (planner::is_refused(format_, launch)) {
        return true;
      }
      planner::write_launch(format_, launch);
    } catch (const Error&) {
      return true;
    }
    return false;
  }

 private:
  [[nodiscard]] planner::LaunchPlan settled(const planner::Plan& plan) const {
    planner::launched_framework(format_, launch_.job.framework, plan.sharding);
    planner::LaunchPlan launch = launch_;
    launch.plan = plan;
    planner::set_hosts(launch);
    planner::settle_launched_job(format_, launch);
    return launch;
  }

  planner::LaunchFormat format_;
  planner::LaunchPlan launch_;
};

planner::AcceptsPlan can_be_written(const planner::Job& job, planner::LaunchFormat format) {
  return [trial = ExportTrial(job, format)](const planner::Plan& plan) {
    return !trial.refuses(plan);
  };
}

// The format of the framework's users; trireme has several.
std::optional<planner::LaunchFormat> own_format(const planner::Framework& framework) {
  if (framework.sharder == planner::Sharder::kTrireme) {
    return std::nullopt;
  }
  return planner::default_launch_format(framework.name, framework.base);
}

// Whether one of the layouts beside the best is none that `accepts` takes.
bool lists_refused(const planner::SwitchedSearch& found, const planner::Accepts& accepts) {
  const planner::AcceptsPlan accepts_plan = accepts(found.job);
  const auto refused = [&](const auto& row) { return !accepts_plan(row.plan); };
  const planner::SearchResult& result = found.result;
  return std::any_of(result.alternatives.begin(), result.alternatives.end(), refused) ||
         std::any_of(result.pareto.begin(), result.pareto.end(), refused) ||
         (result.at_risk && refused(*result.at_risk));
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
  return ExportTrial(job, format).refusal(plan);
}

std::string export_refusal(const planner::Job& job, const planner::Plan& plan) {
  const auto format = own_format(job.framework);
  return format ? export_refusal(job, plan, *format) : std::string();
}

planner::AcceptsPlan can_be_exported(const planner::Job& job) {
  const auto format = own_format(job.framework);
  return format ? can_be_written(job, *format) : [](const planner::Plan&) { return true; };
}

LaunchableSearch search_launchable(const planner::Job& job, const planner::SearchOptions& options,
                                   const std::vector<std::string>& given, bool switches) {
  LaunchableSearch answer{.found = look(job, options, given, switches), .remark = {}};
  if (!answer.found.result.best) {
    return answer;
  }
  const planner::Estimate& fastest = *answer.found.result.best;
  const std::string refusal = export_refusal(answer.found.job, fastest.plan);
  if (refusal.empty() && !lists_refused(answer.found, can_be_exported)) {
    return answer;
  }
  planner::SearchOptions sayable = options;
  sayable.accepts = can_be_exported;
  planner::SwitchedSearch other = look(job, sayable, given, switches);
  if (refusal.empty()) {
    answer.found = std::move(other);
    return answer;
  }
  if (!other.result.best) {
    answer.remark = fmt::format("`export` would refuse it, and every other: {}", refusal);
    return answer;
  }
  const double share = other.result.best->time.step_seconds / fastest.time.step_seconds - 1;
  const std::string better =
      share > 0 ? fmt::format("would be {:.1f} % faster", 100 * share) : "would fit for sure";
  answer.remark = fmt::format("{} {}, but `export` would refuse it: {}",
                              planner::short_form(fastest.plan), better, refusal);
  answer.found = std::move(other);
  return answer;
}

Recommended search_recommended(const planner::Job& job, const planner::SearchOptions& options,
                               const std::vector<std::string>& given, bool switches) {
  Recommended best{.answer = search_launchable(job, options, given, switches), .reason = {}};
  const bool by_time = options.goal == planner::Goal::kTime || options.goal == planner::Goal::kCost;
  planner::SwitchedSearch& found = best.answer.found;
  if (by_time && found.result.best) {
    planner::SearchOptions sayable = options;
    sayable.accepts = can_be_exported;
    best.reason = put_first(job, sayable, found);
  }
  return best;
}

Recommended search_for_format(const planner::Job& job, planner::SearchOptions options,
                              std::vector<std::string> given, planner::LaunchFormat format) {
  given.insert(given.end(), {"precision", "grad_dtype"});
  const planner::Accepts writable = [format](const planner::Job& asked) {
    return can_be_written(asked, format);
  };
  // Writing a file is dearer than estimating it: all candidates are asked only where one that would
  // be shown cannot be written.
  planner::SwitchedSearch found = look(job, options, given, true);
  options.accepts = writable;
  if (found.result.best &&
      (!writable(found.job)(found.result.best->plan) || lists_refused(found, writable))) {
    found = look(job, options, given, true);
  }
  Recommended best{.answer = {.found = std::move(found), .remark = {}}, .reason = {}};
  if (best.answer.found.result.best) {
    best.reason = put_first(job, options, best.answer.found);
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
