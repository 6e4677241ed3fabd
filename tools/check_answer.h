// What `check` works out of a launch configuration: rules, memory and time, whether it fits, a
// better layout of the same job.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/search/switches.h"
#include "planner/start/launch_rules.h"
#include "tools/check_verdict.h"

namespace trireme::tools {

struct CheckRequest {
  std::string file;
  std::string format;                  // empty: by name and contents
  std::vector<std::string> arguments;  // the script's own words, then what overrides the file
  planner::LaunchOptions launch;       // what is said beside the file; needs a cluster
};

struct CheckReport {
  planner::LaunchConfig config;
  planner::LaunchCase found;
  planner::RuleReport rules;
  std::optional<planner::Estimate> estimate;  // of the configuration, when it can be computed
  Verdict verdict;                            // of the estimate
  // More than 2 % faster than the file's layout, each with the switches that help it, or one that
  // fits; one that the format can say. `better_job` is the job with its switches.
  std::optional<planner::Estimate> better;
  planner::Job better_job;
  std::vector<planner::SwitchGain> better_switches;
  std::string better_command;  // `trireme export …` that writes it; empty: see the next two
  std::string better_refusal;
  std::string better_beside;  // what makes the better plan of this very file, outside of it
  std::vector<planner::SwitchGain> switches;  // the framework's, off in the file, that help it
  // What a trainer calls them, where a table of its own does not hold it.
  std::shared_ptr<std::deque<std::string>> own_words = std::make_shared<std::deque<std::string>>();
};

// Throws Error: the file cannot be read, no model, no cluster. `progress` is called with the share
// of the search that is done.
CheckReport check_file(const CheckRequest& request, const std::function<void(double)>& progress);

}  // namespace trireme::tools
