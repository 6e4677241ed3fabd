// DeepSpeed's JSON between the files that write and read it.
#pragma once

#include <span>

#include "planner/launch/field_table.h"

namespace trireme::planner {

// Its keys, each with what a plan makes of it.
std::span<const Field> deepspeed_fields();

}  // namespace trireme::planner
