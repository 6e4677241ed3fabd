// A plan as a launch configuration of the framework that runs it.
#pragma once

#include <string>

#include "planner/launch/launch_plan.h"

namespace trireme::planner {

// The format of the framework's own users. Throws Error for trireme, which has several.
LaunchFormat default_launch_format(const std::string& framework);

// Whose behaviour the started job has: `framework` where the format starts it; for trireme, whose
// plans are anybody's, the format's own. Throws Error when the format starts another framework.
std::string launched_framework(LaunchFormat format, const std::string& framework,
                               Sharding sharding);

// Makes the job what the format's framework will do of it, where it gives no choice, and notes what
// that changed. Before the prediction.
void settle_launched_job(LaunchFormat format, LaunchPlan& launch);

// Of `--set`'s keys, those that describe a framework rather than choose something of it: they are
// in the prediction, and no launch file has a field for them.
bool is_in_launch_files(std::string_view setting);

// Throws Error naming the axis that the format cannot say, and what would be right.
LaunchFile write_launch(LaunchFormat format, const LaunchPlan& launch);

}  // namespace trireme::planner
