// What an optimizer keeps.
#pragma once

#include "planner/plan/job.h"

namespace trireme::planner {

// Bytes of one element's states beside the master copy.
double moment_bytes(const Job& job);

}  // namespace trireme::planner
