// Pass 7: one pipeline stage's program: its actions in order with their transfers, then the
// optimizer.
#pragma once

#include "core/program.h"
#include "planner/lower/held_memory.h"
#include "planner/lower/place_ranks.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"
#include "planner/plan/shape.h"

namespace trireme::planner::lowering {

Program write_stage(const Job& job, const Plan& plan, const Shape& shape, const Groups& groups,
                    const HeldMemory& held, const StepProgram& step, std::int64_t stage);

}  // namespace trireme::planner::lowering
