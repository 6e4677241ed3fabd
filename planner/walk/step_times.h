// How long each op of a step program takes alone on the job's cluster: the table that walk and
// simulate are both given. Every number is topologies' (op_cost, collective_cost), with the
// framework's fitted behaviour applied as estimate applies it: bytes of memory-bound passes and
// host time a launch.
#pragma once

#include "core/op_times.h"
#include "core/program.h"
#include "planner/plan/job.h"

namespace trireme::planner {

// Requires: a program that lower() made for this job. Throws Error on a role whose ops take more
// than 1e5 s: the simulated clock could not add up such ranks.
StepTimes time_ops(const Job& job, const StepProgram& program);

}  // namespace trireme::planner
