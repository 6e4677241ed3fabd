// What a format cannot start, as rows: for who asks of many plans whether it is refused, and needs
// no words.
#pragma once

#include <span>

#include "planner/launch/export.h"
#include "planner/launch/field_table.h"

namespace trireme::planner {

std::span<const Refusal> torchtitan_refusals();
std::span<const Refusal> deepspeed_refusals();
std::span<const Refusal> accelerate_refusals();
std::span<const std::span<const Refusal>> megatron_refusals();

// Whether a row says no, and so write_launch does. Of a plan that no row refuses a writer may
// still.
bool is_refused(LaunchFormat format, const LaunchPlan& launch);

}  // namespace trireme::planner
