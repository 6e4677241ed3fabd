// Switches of a framework beside a layout, as commands print them.
#pragma once

#include <string>
#include <vector>

#include "planner/search/switches.h"
#include "tools/report.h"

namespace trireme::tools {

Json switch_json(const planner::SwitchGain& gain);
Json switches_json(const std::vector<planner::SwitchGain>& gains);
// "-0.81 s by --cross-entropy-loss-fusion (fused loss; --set cross_entropy_fusion=true)": what it
// brings, how the framework is told and how a command here is; where it decides whether the layout
// fits, that first.
std::string switch_words(const planner::SwitchGain& gain);
inline bool is_applied(const planner::SwitchGain& gain) {
  return gain.applied;
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

}  // namespace trireme::tools
