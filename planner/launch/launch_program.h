// Whose program a launch file starts, and which release of it: the entry of frameworks.json whose
// behaviour a prediction of the file has.
#pragma once

#include <string>
#include <string_view>

#include "planner/launch/launch_config.h"
#include "planner/launch/launch_layout.h"

namespace trireme::planner {

// The entry of the program that the format starts where that shards as `base` does: "torchtitan"
// for torchtitan's fsdp2. `base` itself where the format's program has no entry of its own.
std::string program_of(LaunchFormat format, const std::string& base);
// Whether the entry is some format's program of that kind.
bool is_program(const std::string& entry);

// The release that a comment of the file names ("For torchtitan v0.2.2"), else the newest one whose
// names of settings the file has; empty where neither tells, or the release is not listed.
std::string release_of(const LaunchConfig& config, std::string_view text);

}  // namespace trireme::planner
