#include "planner/start/launch_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/start/trainer_rules.h"

namespace trireme::planner {
namespace {

// Rules of the start itself, whatever the framework.
void check_start(const LaunchConfig& config, const LaunchCase& found, RuleReport& report) {
  if (found.world > found.cluster_gpus) {
    report.ranks_hold = report.layout_holds = false;
    report.violations.push_back(
        {"ranks <= GPUs of the cluster", Severity::kError,
         fmt::format("{} ranks are started, the cluster has {} GPUs", found.world,
                     found.cluster_gpus),
         fmt::format("use a cluster of {} GPUs or more (--cluster), or --gpus {}", found.world,
                     found.cluster_gpus)});
  }
  if (config.tasks_per_node.value_or(1) > 1) {
    report.violations.push_back(
        {"one launcher a node", Severity::kError,
         fmt::format("{} starts {} launchers on every node, and each of them {} processes: {} "
                     "times the ranks",
                     line_of(config, config.tasks_line), *config.tasks_per_node,
                     config.gpus_per_node.value_or(1), *config.tasks_per_node),
         "start one of them a node (srun --ntasks-per-node=1): it starts the processes"});
  }
  if (!found.precision_exists) {
    report.layout_holds = false;
    report.violations.push_back(
        {"precision of the GPU", Severity::kError,
         fmt::format("{} does not compute in {}", found.job.cluster.gpu.name, config.precision),
         "use fp16, or fp32"});
  }
}

// Each layout rule that is broken, unless a row of the framework's own table already said so.
void check_layout(const LaunchConfig& config, const LaunchCase& found,
                  const std::vector<Rule>& reported, RuleReport& report) {
  for (const Violation& violation : broken_rules(found.job, found.plan)) {
    const bool product = violation.rule == Rule::kGpuProduct;
    report.layout_holds = false;
    report.ranks_hold = report.ranks_hold && !product;
    if (std::find(reported.begin(), reported.end(), violation.rule) != reported.end() ||
        (product && found.world > found.cluster_gpus)) {
      continue;
    }
    std::string fix = fix_of(config, found, violation.rule);
    if (const auto cut = violation.detail.rfind("; "); fix.empty() && cut != std::string::npos) {
      fix = violation.detail.substr(cut + 2);
    }
    report.violations.push_back({std::string(to_string(violation.rule)), Severity::kError,
                                 violation.detail, std::move(fix)});
  }
}

}  // namespace

std::string place_of(const LaunchConfig& config, const LaunchSetting& setting) {
  return setting.line == 0 ? "of the command line" : line_of(config, setting.line);
}

std::vector<std::span<const LaunchRule>> rule_tables(LaunchFormat format) {
  switch (format) {
    case LaunchFormat::kMegatron:
      return {megatron_start_rules(), megatron_layout_rules(), megatron_overlap_rules(),
              megatron_fsdp_rules()};
    case LaunchFormat::kMegatronBridge:
      return {megatron_layout_rules(), megatron_overlap_rules(), megatron_bridge_rules()};
    case LaunchFormat::kTorchtitan:
      return {torchtitan_rules()};
    case LaunchFormat::kDeepspeed:
      return {trainer_rules(), deepspeed_rules()};
    case LaunchFormat::kAccelerate:
      return {trainer_rules(), accelerate_rules(), deepspeed_rules()};
  }
  return {};
}

void soften_open_errors(const LaunchConfig& config, const std::vector<RuleReport>& others,
                        RuleReport& report) {
  for (LaunchViolation& violation : report.violations) {
    const bool everywhere = std::all_of(others.begin(), others.end(), [&](const RuleReport& other) {
      return std::any_of(other.violations.begin(), other.violations.end(),
                         [&](const LaunchViolation& each) {
                           return each.rule == violation.rule && each.severity == Severity::kError;
                         });
    });
    if (violation.severity == Severity::kError && !everywhere) {
      violation.severity = Severity::kWarning;
      violation.detail += fmt::format(" (not in every branch of what {} leaves open)",
                                      line_of(config, config.undecided.front().line));
    }
  }
  std::stable_sort(
      report.violations.begin(), report.violations.end(),
      [](const LaunchViolation& a, const LaunchViolation& b) { return a.severity > b.severity; });
}

RuleReport check_launch(const LaunchConfig& config, const LaunchCase& found) {
  RuleReport report;
  check_start(config, found, report);
  std::vector<Rule> reported;
  for (const std::span<const LaunchRule> table : rule_tables(config.format)) {
    for (const LaunchRule& rule : table) {
      std::optional<Finding> finding = rule.check(config, found);
      if (!finding) {
        continue;
      }
      if (rule.layout_rule) {
        reported.push_back(*rule.layout_rule);
        report.layout_holds = false;
        report.ranks_hold = report.ranks_hold && *rule.layout_rule != Rule::kGpuProduct;
      }
      report.violations.push_back({std::string(rule.name),
                                   finding->severity.value_or(rule.severity),
                                   std::move(finding->detail), std::move(finding->fix)});
    }
  }
  check_layout(config, found, reported, report);
  for (LaunchViolation& violation : report.violations) {
    violation.fix = in_own_words(config, violation.fix);
  }
  std::stable_sort(
      report.violations.begin(), report.violations.end(),
      [](const LaunchViolation& a, const LaunchViolation& b) { return a.severity > b.severity; });
  return report;
}

}  // namespace trireme::planner
