#include "planner/launch/launch_format.h"

#include <fmt/format.h>

#include <utility>

#include "core/error.h"

namespace trireme::planner {
namespace {

constexpr std::pair<LaunchFormat, std::string_view> kFormats[] = {
    {LaunchFormat::kMegatron, "megatron"},     {LaunchFormat::kMegatronBridge, "megatron-bridge"},
    {LaunchFormat::kTorchtitan, "torchtitan"}, {LaunchFormat::kDeepspeed, "deepspeed"},
    {LaunchFormat::kAccelerate, "accelerate"},
};

}  // namespace

std::string_view to_string(LaunchFormat format) {
  for (const auto& [known, name] : kFormats) {
    if (known == format) {
      return name;
    }
  }
  return "";
}

std::vector<std::string_view> launch_format_names() {
  std::vector<std::string_view> names;
  for (const auto& entry : kFormats) {
    names.push_back(entry.second);
  }
  return names;
}

LaunchFormat launch_format_of(std::string_view name) {
  for (const auto& [format, known] : kFormats) {
    if (known == name) {
      return format;
    }
  }
  throw Error("--format", fmt::format("'{}' is not a launch format; there are {}", name,
                                      fmt::join(launch_format_names(), ", ")));
}

}  // namespace trireme::planner
