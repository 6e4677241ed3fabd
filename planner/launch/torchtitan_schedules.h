// Pipeline schedules by the names that torchtitan takes.
#pragma once

#include <span>
#include <string_view>

#include "planner/launch/launch_config.h"

namespace trireme::planner {

// As PyTorch spells them (torch.distributed.pipelining, get_schedule_class).
std::span<const std::string_view> torchtitan_schedules();
// The configuration's schedule as PyTorch spells it, whatever its case; "1F1B" where none is given.
// Empty for a name that PyTorch does not have.
std::string_view torchtitan_schedule(const LaunchConfig& config);

}  // namespace trireme::planner
