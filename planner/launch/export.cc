#include "planner/launch/export.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/launch/write_megatron.h"

namespace trireme::planner {
namespace {

struct Route {
  LaunchFormat format;
  // What the format starts; the first is what a plan for trireme becomes.
  std::vector<std::string_view> frameworks;
  LaunchFile (*write)(const LaunchPlan&);
};

const std::vector<Route>& routes() {
  static const std::vector<Route> kRoutes = {
      {LaunchFormat::kMegatron, {"megatron", "megatron-fsdp", "fsdp2"}, write_megatron},
  };
  return kRoutes;
}

const Route& route_of(LaunchFormat format) {
  return *std::find_if(routes().begin(), routes().end(),
                       [&](const Route& route) { return route.format == format; });
}

}  // namespace

LaunchFormat default_launch_format(const std::string& framework) {
  if (framework.starts_with("megatron")) {
    return LaunchFormat::kMegatron;
  }
  if (framework == "fsdp1") {
    return LaunchFormat::kAccelerate;
  }
  if (framework == "fsdp2") {
    return LaunchFormat::kTorchtitan;
  }
  if (framework == "deepspeed") {
    return LaunchFormat::kDeepspeed;
  }
  refuse("--format", fmt::format("is missing; a plan for {} can become one of {}", framework,
                                 fmt::join(launch_format_names(), ", ")));
}

std::string launched_framework(LaunchFormat format, const std::string& framework,
                               Sharding sharding) {
  const Route& route = route_of(format);
  if (framework == "trireme") {
    const bool megatron = route.frameworks.front() == "megatron";
    const bool fsdp = sharding == Sharding::kFull || sharding == Sharding::kGradients;
    return megatron && fsdp ? "megatron-fsdp" : std::string(route.frameworks.front());
  }
  if (std::find(route.frameworks.begin(), route.frameworks.end(), framework) ==
      route.frameworks.end()) {
    refuse("--format",
           fmt::format("{} does not start {}; --framework {} would be right", to_string(format),
                       framework, fmt::join(route.frameworks, " or ")));
  }
  return framework;
}

LaunchFile write_launch(LaunchFormat format, const LaunchPlan& launch) {
  return route_of(format).write(launch);
}

}  // namespace trireme::planner
