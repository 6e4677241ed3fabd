// Plans that the users of a framework can be given: what its launch file cannot say is no plan of
// theirs.
#pragma once

#include <string>
#include <vector>

#include "planner/launch/launch_layout.h"
#include "planner/search/switches.h"
#include "tools/options.h"

namespace trireme::tools {

// What `export` would say no with, in the framework's own format; empty: nothing, or the framework
// has no format of its own (trireme has several).
std::string export_refusal(const planner::Job& job, const planner::Plan& plan);
// The same in another format of its users.
std::string export_refusal(const planner::Job& job, const planner::Plan& plan,
                           planner::LaunchFormat format);
// The layouts of a job that its framework's own program (of trireme: `run`) can start, whatever
// else of the job it refuses.
planner::Acceptance what_starts(const planner::Job& job);

struct LaunchableSearch {
  planner::SwitchedSearch found;
  std::string remark;  // what of the job no launch file can say, or `run` does not execute
};
// As search_with_switches, or as search where `switches` is false, among layouts that start.
LaunchableSearch search_launchable(const planner::Job& job, planner::SearchOptions options,
                                   const std::vector<std::string>& given, bool switches);

// The same, with the layout first that an engineer would start with: what `plan`, `whatif` and
// `explain` mean by the best. `reason` says why it is not the fastest.
struct Recommended {
  LaunchableSearch answer;
  std::string reason;
};
Recommended search_recommended(const planner::Job& job, planner::SearchOptions options,
                               const std::vector<std::string>& given, bool switches);
// The same among what a file of the format can say, with no look at what changes numerics; nothing
// is the best where the format can say nothing.
Recommended search_for_format(const planner::Job& job, planner::SearchOptions options,
                              std::vector<std::string> given, planner::LaunchFormat format);

// Keys of --set, and what --precision decides: no switch touches them.
std::vector<std::string> decided_switches(const JobOptions& options);

// What `export` says of a job whose fine-tuning no launch file can say; empty: nothing.
std::string fine_tuning_refusal(const planner::Job& job);

}  // namespace trireme::tools
