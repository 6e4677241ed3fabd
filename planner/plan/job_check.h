// What no plan of a job could be computed for: tensors whose elements 64 bits do not count.
#pragma once

#include "planner/plan/job.h"

namespace trireme::planner {

// Throws Error when the step's tokens times the model's widest tensor, or the scores of unfused
// attention, come near 2^63 bytes; everything below multiplies such counts in integers. Counts the
// whole step, so that every micro-batch, layout and rank of it is safe.
void check_job(const Job& job);

}  // namespace trireme::planner
