// What `check` prints of a launch configuration.
#pragma once

#include <optional>
#include <vector>

#include "planner/launch/launch_rules.h"
#include "planner/search/switches.h"
#include "tools/check_verdict.h"
#include "tools/report.h"

namespace trireme::tools {

struct CheckReport {
  planner::LaunchConfig config;
  planner::LaunchCase found;
  planner::RuleReport rules;
  std::optional<planner::Estimate> estimate;  // of the configuration, when it can be computed
  Verdict verdict;                            // of the estimate
  std::optional<planner::Estimate> better;    // more than 2 % faster, or one that fits
  std::vector<planner::SwitchGain> switches;  // the framework's, off in the file, that help it
};

// Settings that are not known, and those of them whose names say that memory or time may depend on
// them.
std::vector<std::string> settings_that_may_matter(const planner::LaunchConfig& config);

Json check_json(const CheckReport& report);
void print_check(const Console& console, const CheckReport& report);

}  // namespace trireme::tools
