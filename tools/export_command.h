// The command that writes a plan which `check` found as the file that it was asked about.
#pragma once

#include <string>

#include "planner/search/switches.h"
#include "tools/check_answer.h"

namespace trireme::tools {

// "trireme export --format megatron --model llama-3.1-8b --cluster dgx-h100x2 … -o better.sh". A
// model that only the file describes stands as MODEL, for its config.json.
std::string export_command(const CheckRequest& request, const CheckReport& report,
                           const planner::SwitchedSearch& found, const planner::Plan& plan,
                           planner::LaunchFormat format);

}  // namespace trireme::tools
