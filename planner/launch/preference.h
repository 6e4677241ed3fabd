// Training on preferences (DPO and its kin): which methods ask a frozen copy of the model too, and
// which compare two answers a sample.
#pragma once

#include <string>
#include <string_view>

#include "planner/launch/launch_config.h"

namespace trireme::planner {

// The method among the words of a program's name: "dpo" of examples/scripts/dpo_vlm.py, empty where
// it has none. Methods with rollouts or other losses (grpo, online_dpo, reward) count too; losses
// of DPO (hinge, robust) do not: they are words of other programs' names.
std::string method_of_program(std::string_view program);

// What `method` trains beside one model on one answer a sample, into `config`: its reference, its
// pairs (packed ones are not counted twice), or that it is not counted at all. `said` holds the
// run's settings. Methods that are plain training ("sft", "none", "") change nothing.
void read_method(std::string_view method, std::string_view spelled, const LaunchConfig& said,
                 LaunchConfig& config);

}  // namespace trireme::planner
