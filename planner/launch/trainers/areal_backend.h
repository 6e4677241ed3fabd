// Which of AReaL's engines trains, and by which degrees: fsdp:d4t2, archon:d4p2,
// megatron:(attn:d4p2|ffn:d1e8).
#pragma once

#include <cstdint>
#include <string>

#include "planner/launch/launch_config.h"

namespace trireme::planner {

struct ArealDegrees {
  std::int64_t data = 1, pipeline = 1, tensor = 1, context = 1, expert = 1;
};

struct ArealBackend {
  std::string engine;
  ArealDegrees degrees;
  std::int64_t expert_tensor = 1;
};

// Of actor.backend, or of 2025's allocation_mode. Throws Error.
ArealBackend areal_backend(const LaunchConfig& said);

}  // namespace trireme::planner
