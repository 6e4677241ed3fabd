#include "planner/launch/torchtitan_schedules.h"

#include <algorithm>

namespace trireme::planner {
namespace {

constexpr std::string_view kSchedules[] = {"1F1B",      "Interleaved1F1B", "GPipe",
                                           "LoopedBFS", "ZBVZeroBubble",   "InterleavedZeroBubble",
                                           "DualPipeV"};

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

std::span<const std::string_view> torchtitan_schedules() {
  return kSchedules;
}

std::string_view torchtitan_schedule(const LaunchConfig& config) {
  const std::string given = text_setting(config, "parallelism.pipeline_parallel_schedule", "1F1B");
  const auto found =
      std::find_if(std::begin(kSchedules), std::end(kSchedules), [&](std::string_view name) {
        return std::equal(name.begin(), name.end(), given.begin(), given.end(),
                          [](char a, char b) { return lower(a) == lower(b); });
      });
  return found == std::end(kSchedules) ? std::string_view() : *found;
}

}  // namespace trireme::planner
