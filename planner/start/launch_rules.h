// Which rules a launch configuration breaks: those of every layout (planner/plan/rules.h) and those
// of the framework's own start-up checks, as a table.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/launch/launch_case.h"
#include "planner/launch/launch_layout.h"
#include "planner/plan/rules.h"

namespace trireme::planner {

enum class Severity : std::uint8_t { kWarning, kError };

struct LaunchViolation {
  std::string rule;
  Severity severity = Severity::kError;
  std::string detail;  // with the numbers
  std::string fix;     // what to write instead, with numbers
};

// What a broken rule of the table found; `severity` where the case is milder than the rule.
struct Finding {
  std::string detail, fix;
  std::optional<Severity> severity = {};
};

struct LaunchRule {
  std::string_view name;
  Severity severity = Severity::kError;
  // The rule of every layout that says the same in general; not reported a second time.
  std::optional<Rule> layout_rule;
  std::optional<Finding> (*check)(const LaunchConfig& config, const LaunchCase& found) = nullptr;
};

// The rows that a format is held to (megatron_*_rules.cc, torch_rules.cc, torchtitan_rules.cc).
std::vector<std::span<const LaunchRule>> rule_tables(LaunchFormat format);
std::span<const LaunchRule> megatron_start_rules();
std::span<const LaunchRule> megatron_layout_rules();
std::span<const LaunchRule> megatron_overlap_rules();
std::span<const LaunchRule> megatron_fsdp_rules();
std::span<const LaunchRule> megatron_bridge_rules();
std::span<const LaunchRule> torchtitan_rules();
std::span<const LaunchRule> deepspeed_rules();
std::span<const LaunchRule> accelerate_rules();
// "line 12", or "of the command line".
std::string place_of(const LaunchConfig& config, const LaunchSetting& setting);
// Values that are none of the words which the format takes for their keys (value_rules.cc).
std::optional<Finding> values_known(const LaunchConfig& config, const LaunchCase& found);
// Keys that are slips of ones that the format has, of those with sections (torch_rules.cc).
std::optional<Finding> keys_known(const LaunchConfig& config, const LaunchCase& found);

struct RuleReport {
  std::vector<LaunchViolation> violations;  // errors first
  bool layout_holds = true;  // no rule of every layout is broken: it can be estimated
  bool ranks_hold = true;    // the degrees multiply to the ranks that are started
};
RuleReport check_launch(const LaunchConfig& config, const LaunchCase& found);
// Errors that some of the `others`, the same file with other branches of what it leaves open, do
// not have become warnings that say so.
void soften_open_errors(const LaunchConfig& config, const std::vector<RuleReport>& others,
                        RuleReport& report);

// "use --tensor-model-parallel-size 4 or 8": values near the present one with which every rule
// holds, else those with which `rule` holds and none is broken that held before. Empty when there
// is none.
std::string values_that_hold(const LaunchConfig& config, const LaunchCase& found, Knob knob,
                             Rule rule);
// The fix of a rule of every layout.
std::string fix_of(const LaunchConfig& config, const LaunchCase& found, Rule rule);

}  // namespace trireme::planner
