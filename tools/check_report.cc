#include "tools/check_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "planner/start/trainer_rules.h"
#include "tools/plan_report.h"
#include "tools/switches_report.h"
#include "tools/table.h"

namespace trireme::tools {
namespace {

using planner::Severity;

void print_violations(const Console& console, const CheckReport& report) {
  const auto& violations = report.rules.violations;
  const auto errors =
      std::count_if(violations.begin(), violations.end(),
                    [](const auto& violation) { return violation.severity == Severity::kError; });
  print_heading(
      console, fmt::format("{} ({}): {} rule{} broken, {} warning{}", report.config.source,
                           planner::to_string(report.config.format), errors, errors == 1 ? "" : "s",
                           violations.size() - static_cast<std::size_t>(errors),
                           violations.size() - static_cast<std::size_t>(errors) == 1 ? "" : "s"));
  for (const planner::LaunchViolation& violation : violations) {
    fmt::print(console.out, "{}: {}: {}\n",
               violation.severity == Severity::kError ? "error" : "warning", violation.rule,
               violation.detail);
    if (!violation.fix.empty()) {
      fmt::print(console.out, "  {}\n", violation.fix);
    }
  }
  for (const std::string& remark : remarks_of(report)) {
    fmt::print(console.out, "remark: {}\n", remark);
  }
}

void print_better(const Console& console, const CheckReport& report) {
  if (!report.better) {
    if (report.estimate && report.estimate->memory.fit != planner::Fit::kNo) {
      fmt::print(console.out,
                 "\nno layout of the same job that this format can say is more than 2 % faster, "
                 "each with the switches that help it\n");
    } else if (report.verdict.known) {
      fmt::print(console.out, "\nno layout of this job that this format can say fits these GPUs\n");
    }
    return;
  }
  const planner::Estimate& better = *report.better;
  std::string gain;
  if (report.estimate && report.estimate->memory.fit != planner::Fit::kNo) {
    gain = fmt::format(", {:.1f} % less",
                       100 * (1 - better.time.step_seconds / report.estimate->time.step_seconds));
  }
  fmt::print(console.out,
             "\nbetter: {} in {} a step{}, {:.1f} GiB allocated (recompute {}, sharding {}, "
             "schedule {})\n",
             planner::short_form(better.plan), duration_text(better.time.step_seconds), gain,
             better.memory.allocated_gib, planner::to_string(better.plan.recompute),
             planner::to_string(better.plan.sharding), planner::to_string(better.plan.schedule));
  print_switches(console, report.better_switches, "with", is_applied);
  if (!report.better_beside.empty()) {
    fmt::print(console.out, "to have it: {}; the file stays as it is\n", report.better_beside);
  } else if (report.better_command.empty()) {
    fmt::print(console.out, "`export` would refuse it: {}\n", report.better_refusal);
  } else {
    fmt::print(console.out, "to have it: {}\n", report.better_command);
    if (const std::string run = planner::trainer_batch(report.config, better.plan); !run.empty()) {
      fmt::print(console.out,
                 "  beside it in the run: {}, and that file in place of what shards it\n", run);
    }
  }
}

}  // namespace

std::vector<std::string> remarks_of(const CheckReport& report) {
  std::vector<std::string> remarks = report.config.remarks;
  if (report.found.recompute_is_open) {
    remarks.emplace_back(
        "recompute is decided in the training script, not here: none is assumed (--recompute says "
        "otherwise)");
  }
  if (!report.found.filled.empty()) {
    remarks.push_back(
        fmt::format("not in the file, filled: {}", fmt::join(report.found.filled, "; ")));
  }
  const planner::Job& job = report.found.job;
  std::int64_t longest = job.training.lengths.empty() ? job.sequence : 0;
  for (const planner::LengthShare& sample : job.training.lengths) {
    longest = std::max(longest, std::min(sample.tokens, job.sequence));
  }
  if (job.model.max_sequence > 0 && longest > job.model.max_sequence) {
    remarks.push_back(fmt::format("{} tokens are more than the longest sequence of {}, {}", longest,
                                  job.model.name, job.model.max_sequence));
  }
  const std::size_t unknown = report.config.unknown.size();
  if (unknown > 0) {
    std::vector<std::string> matter = settings_that_may_matter(report.config);
    const std::size_t shown = std::min<std::size_t>(matter.size(), 8);
    const std::size_t more = matter.size() - shown;
    matter.resize(shown);
    remarks.push_back(fmt::format(
        "{} setting{} not known to this program{}{}", unknown, unknown == 1 ? " is" : "s are",
        matter.empty() ? "; by name, neither memory nor time depend on any"
                       : fmt::format("; memory or time may depend on {}", fmt::join(matter, ", ")),
        more > 0 ? fmt::format(" and {} more", more) : ""));
  }
  return remarks;
}

std::vector<std::string> settings_that_may_matter(const planner::LaunchConfig& config) {
  constexpr std::array<std::string_view, 29> kWords = {
      "parallel", "recompute", "offload",   "fp8",    "fp4",      "fsdp",      "overlap", "buffer",
      "bucket",   "graph",     "fus",       "moe",    "expert",   "attention", "batch",   "seq",
      "layer",    "dtype",     "precision", "memory", "pipeline", "optimizer", "shard",   "cache",
      "compile",  "window",    "mamba",     "head",   "zero"};
  std::vector<std::string> names;
  for (const planner::LaunchSetting& setting : config.unknown) {
    const bool matters = std::any_of(kWords.begin(), kWords.end(), [&](std::string_view word) {
      return setting.key.find(word) != std::string::npos;
    });
    if (matters && std::find(names.begin(), names.end(), setting.spelled) == names.end()) {
      names.push_back(setting.spelled);
    }
  }
  return names;
}

namespace {

Json check_json(const CheckReport& report) {
  Json violations = Json::array();
  for (const planner::LaunchViolation& violation : report.rules.violations) {
    violations.push_back(
        {{"rule", violation.rule},
         {"severity", violation.severity == Severity::kError ? "error" : "warning"},
         {"detail", violation.detail},
         {"fix", violation.fix}});
  }
  Json unknown = Json::array();
  for (const planner::LaunchSetting& setting : report.config.unknown) {
    unknown.push_back(setting.spelled);
  }
  const auto estimate_of = [&](const std::optional<planner::Estimate>& estimate) {
    return estimate ? estimate_json(report.found.job, *estimate) : Json();
  };
  Json own = estimate_of(report.estimate);
  if (report.estimate && !report.verdict.known) {
    own["fits"] = Json();
    own["fit"] = "not_known";
  }
  return {{"source", report.config.source},
          {"format", planner::to_string(report.config.format)},
          {"layout", report.rules.ranks_hold ? layout_json(report.found.plan) : Json()},
          {"violations", violations},
          {"estimate", own},
          {"verdict", report.estimate ? own["fit"] : Json("not_known")},
          {"verdict_reason", report.verdict.why},
          {"better", report.better ? estimate_json(report.better_job, *report.better) : Json()},
          {"better_switches", switches_json(report.better_switches)},
          {"better_command", report.better_command.empty() ? Json() : Json(report.better_command)},
          {"switches", switches_json(report.switches)},
          {"filled", report.found.filled},
          {"remarks", remarks_of(report)},
          {"unknown", unknown}};
}

}  // namespace

void print_check_json(const Console& console, const CheckReport& report) {
  print_json(console, "check", check_json(report));
}

void print_check(const Console& console, const CheckReport& report) {
  print_violations(console, report);
  fmt::print(console.out, "\n");
  if (report.estimate) {
    planner::Estimate shown = *report.estimate;
    shown.memory.fit = report.verdict.known ? shown.memory.fit : planner::Fit::kAtRisk;
    print_estimate(console, report.found.job, shown);
    if (!report.verdict.known) {
      fmt::print(console.out, "\nwhether it fits is not known: {}\n", report.verdict.why);
    }
  } else if (!report.verdict.known) {
    print_heading(console, job_text(report.found.job));
    fmt::print(console.out, "no memory, no time, no verdict: {}\n", report.verdict.why);
  } else {
    print_heading(console, job_text(report.found.job));
    fmt::print(console.out,
               "memory and time cannot be computed before the errors above are mended\n");
  }
  print_switches(console, report.switches, "\nthe same layout", keeps_numerics);
  print_switches(console, report.switches, "\nthe same layout, changed numerics", changes_numerics);
  print_better(console, report);
}

}  // namespace trireme::tools
