// What `check` prints of a launch configuration.
#pragma once

#include <vector>

#include "tools/check_answer.h"
#include "tools/report.h"

namespace trireme::tools {

// Settings that are not known, and those of them whose names say that memory or time may depend on
// them.
std::vector<std::string> settings_that_may_matter(const planner::LaunchConfig& config);

// What the reader should know beside the rules: what was filled in, what is not known.
std::vector<std::string> remarks_of(const CheckReport& report);

void print_check_json(const Console& console, const CheckReport& report);
void print_check(const Console& console, const CheckReport& report);

}  // namespace trireme::tools
