// The fields of a framework by name, for the readers of frameworks.json and of `--set`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "planner/plan/framework.h"

namespace trireme::planner {

using FrameworkMember = std::variant<double Framework::*, bool Framework::*, int Framework::*,
                                     std::int64_t Framework::*>;

// What a number may be, both ends included.
struct SettingRange {
  double low = 0, high = 1e15;
};

struct FrameworkField {
  Setting setting;
  FrameworkMember member;
  SettingRange range = {};
};
// Every number and switch of a framework under its own name.
std::span<const FrameworkField> framework_fields();

// Throws Error when there is no implementation of that name.
models::Implementation implementation_of(const std::string& name);

}  // namespace trireme::planner
