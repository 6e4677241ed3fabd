// What a value of a Python file says of its surroundings.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "planner/launch/launch_config.h"

namespace trireme::planner {

// A value without quotes and without the comment behind it.
std::string plain_value(std::string text);

// A variable of the environment, and what stands in its place where it is not set.
struct EnvironmentValue {
  std::string name;
  std::optional<std::string> otherwise = {};
};

// int(os.environ["TP"]), os.environ.get("TP", 2), os.getenv("TP", "2"); nothing: another value.
std::optional<EnvironmentValue> environment_value(std::string_view text);

// cfg.dpd.…: Python makes an attribute of it, which nobody reads. Throws Error (FILE:LINE) where
// the first part of the path is near one of the sections.
void refuse_slip_of_section(const LaunchConfig& config, std::span<const std::string_view> sections,
                            const std::string& path, int line);
// The same of true and false, which are no names of Python.
void refuse_lower_case(const LaunchConfig& config, std::string_view value, int line);

}  // namespace trireme::planner
