// Traces of PyTorch's profiler (Kineto's JSON, also gzipped) of one step of one rank: what the host
// launched, pass by pass, and what each launch was on the GPU.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/program.h"

namespace trireme::tools {

// What a launch does, by its kernel's name. Copies and fills of memory are launches too.
enum class LaunchKind : std::uint8_t {
  kProduct,
  kAttention,
  kSoftmax,
  kNorm,
  kElementwise,
  kCopy,
  kConcatenate,
  kReduce,
  kFused,  // compiled
  kFill,
  kCollective,
  kOptimizer,
  kOther
};
inline constexpr int kLaunchKinds = static_cast<int>(LaunchKind::kOther) + 1;
const char* to_string(LaunchKind kind);

struct ProfiledLaunch {
  LaunchKind kind = LaunchKind::kOther;
  double gpu_seconds = 0;
  std::int32_t layer = -1;  // of the pass, counted from its first; -1: before or behind the layers
};

// Launches of one thread in a row: PyTorch's backward has a thread of its own.
struct ProfiledPass {
  Phase phase = Phase::kForward;  // kForward, kBackward or kOptimizer: what ends the step
  std::int32_t micro_batch = 0;
  std::vector<ProfiledLaunch> launches;
  double host_seconds = 0, waited_seconds = 0;  // waiting for the GPU is not among the first
};

struct ProfiledStep {
  std::vector<ProfiledPass> passes;
  double seconds = 0;  // from the first launch to the last kernel's end
};

// Whether the file is such a trace: by its name's end, or by its keys.
bool is_profiler_trace(const std::string& path, const nlohmann::json& json);
// Throws Error: not such a trace, or one without CUDA's launches.
ProfiledStep parse_profiler_trace(const nlohmann::json& json, const std::string& path);
// The JSON of a file that may be gzipped. Throws Error.
nlohmann::json read_maybe_gzipped_json(const std::string& path);

}  // namespace trireme::tools
