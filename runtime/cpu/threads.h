// Runs the ranks of a program as threads of this process.
#pragma once

#include <functional>

#include "core/program.h"
#include "runtime/coordinator.h"
#include "runtime/cpu/backend.h"
#include "runtime/execute.h"

namespace trireme::runtime::cpu {

struct ThreadRank {
  RankExecutor& executor;
  Backend& backend;
  Coordinator& coordinator;
};

// Calls `body` on one thread a rank and waits for all. When one throws, the others end at their
// next wait; then throws Error with the first one's reason and the op that every other rank was in.
// A coordinator's barrier gives up after `timeout`.
void run_on_threads(const StepProgram& program, const CpuOptions& options, Seconds timeout,
                    const std::function<void(ThreadRank&)>& body);

}  // namespace trireme::runtime::cpu
