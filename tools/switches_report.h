// Switches of a framework beside a layout, as commands print them.
#pragma once

#include <string>
#include <vector>

#include "planner/search/switches.h"
#include "tools/report.h"

namespace trireme::tools {

Json switch_json(const planner::SwitchGain& gain);
Json switches_json(const std::vector<planner::SwitchGain>& gains);
// "fused loss; --set cross_entropy_fusion=true": what it is, and how a command here is told.
std::string switch_words(const planner::Switch& one);
// "switched on: -0.81 s by --cross-entropy-loss-fusion (fused loss; --set …)" of those that are
// applied, or of the others; nothing where there are none.
void print_switches(const Console& console, const std::vector<planner::SwitchGain>& gains,
                    bool applied, const char* heading);

}  // namespace trireme::tools
