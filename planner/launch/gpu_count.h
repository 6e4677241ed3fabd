// The GPUs that a training's launcher says: its own flags, or those of its batch system.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "planner/launch/launch_config.h"
#include "planner/shell/value.h"

namespace trireme::planner {

// The flags among the words, short ones by their long names.
LaunchConfig launcher_flags(const std::vector<ShellText>& words);
// The count that the first of the keys with one has: of gpu:a100:8 it is 8.
std::optional<std::int64_t> first_count(const LaunchConfig& flags,
                                        std::initializer_list<std::string_view> keys);
// GPUs and GPUs a node of torchrun, deepspeed, srun or mpirun, else of the #SBATCH header, into
// config.gpus and config.gpus_per_node. Throws Error (FILE:LINE) where torchrun and its kin take no
// such count.
void read_gpu_count(const std::vector<ShellText>& launcher, LaunchConfig& config);

}  // namespace trireme::planner
