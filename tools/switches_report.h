// Switches of a framework beside a layout, as commands print them.
#pragma once

#include <string>
#include <vector>

#include "planner/search/switched_plan.h"
#include "tools/report.h"

namespace trireme::tools {

Json switch_json(const planner::SwitchGain& gain);
Json switches_json(const std::vector<planner::SwitchGain>& gains);
// "-0.81 s by --cross-entropy-loss-fusion (fused loss; --set cross_entropy_fusion=true)": what it
// brings, how the framework is told and how a command here is; where it decides whether the layout
// fits, that first.
std::string switch_words(const planner::SwitchGain& gain);
inline bool is_applied(const planner::SwitchGain& gain) {  // and this layout gains by it
  return gain.applied && !planner::is_idle(gain);
}
inline bool changes_numerics(const planner::SwitchGain& gain) {
  return !gain.applied && gain.which.changes_numerics;
}
inline bool keeps_numerics(const planner::SwitchGain& gain) {
  return !gain.applied && !gain.which.changes_numerics;
}
// "HEADING: words; words" of those that are `wanted`; nothing where there are none.
void print_switches(const Console& console, const std::vector<planner::SwitchGain>& gains,
                    const char* heading, bool (*wanted)(const planner::SwitchGain&));

// "switched on: ...", then in a line of its own what is on without a gain.
void print_switched_on(const Console& console, const std::vector<planner::SwitchGain>& gains,
                       const char* heading);

// A layout that is told runs as it is told: which switches that means, and what `plan`, which
// switches on what helps, says of the same layout. `given` as switches_of takes them. Empty where
// the framework has no switches.
std::string told_switches(const planner::Job& job, const planner::Estimate& told,
                          const std::vector<std::string>& given);
// "it fits with --set grad_dtype=bf16 (changes numerics): ...", computed; empty where no switches
// make it surer to fit.
std::string fitting_switches(const planner::Job& job, const planner::Plan& plan,
                             const std::vector<std::string>& given);
Json told_switches_json(const planner::Job& job, const planner::Plan& plan,
                        const std::vector<std::string>& given);

}  // namespace trireme::tools
