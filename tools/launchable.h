// Plans that the users of a framework can be given: what its launch file cannot say is no plan of
// theirs.
#pragma once

#include <string>

#include "planner/search/switches.h"

namespace trireme::tools {

// What `export` would say no with, in the framework's own format; empty: nothing, or the framework
// has no format of its own (trireme has several).
std::string export_refusal(const planner::Job& job, const planner::Plan& plan);

struct LaunchableSearch {
  planner::SwitchedSearch found;
  std::string remark;  // what is faster and cannot be said, or that nothing can
};
// As search_with_switches, or as search where `switches` is false, among plans that can be
// exported; among all where none can.
LaunchableSearch search_launchable(const planner::Job& job, const planner::SearchOptions& options,
                                   const std::vector<std::string>& given, bool switches);

}  // namespace trireme::tools
