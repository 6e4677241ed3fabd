// Whether a framework would start with a switch that is proposed for a configuration: it is added
// to what the file says, and the rules of `check` are asked.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/launch/launch_case.h"
#include "planner/launch/launch_config.h"

namespace trireme::planner {

// A switch as somebody would write it into the file ("--tp-comm-overlap", "[compile] enable =
// true", "NAME=VALUE" of the environment) and as `--set` spells it.
struct LaunchSwitch {
  std::string_view flag, setting;
};

// For each switch whether the rules hold with it: by itself, and beside those before it that were
// taken. `config` and `options` make a case.
std::vector<bool> switches_that_hold(const LaunchConfig& config, const LaunchOptions& options,
                                     const std::vector<LaunchSwitch>& switches);

// How a file of the format recomputes every layer (what its training script calls, where the file
// does not say it; empty: it cannot), goes without recompute, and without states on the host.
std::string_view with_recompute(LaunchFormat format, std::string_view plugin = {});
std::string_view without_recompute(LaunchFormat format, std::string_view plugin = {});
std::string_view without_offload(LaunchFormat format, std::string_view plugin = {});
// Whether a switch stands in the environment, of which a file of the format holds nothing.
bool is_beside(LaunchFormat format, std::string_view flag);
// How a file of Megatron's shards the optimizer's states; empty: the format has another way.
std::string_view sharded_optimizer(LaunchFormat format);

}  // namespace trireme::planner
