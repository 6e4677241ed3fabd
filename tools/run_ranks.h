// Starting the ranks of `trireme run` on a backend, and what comes back from them.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/program.h"
#include "runtime/agreement.h"
#include "runtime/backend.h"
#include "runtime/execute.h"
#include "runtime/launch.h"
#include "runtime/token_source.h"
#include "runtime/train.h"

namespace trireme::tools {

struct RankRun {
  const StepProgram* program = nullptr;
  runtime::TrainSettings settings;
  const runtime::TokenSource* tokens = nullptr;
  std::vector<runtime::Told> told = {};  // what the ranks of a launcher must have been told alike
  // Both are called in the process of rank 0 alone: after each step, and once at the end with every
  // rank's memory.
  std::function<void(std::int64_t step, runtime::StepResults results)> on_step;
  std::function<void(const std::vector<runtime::MemoryUse>& memory)> on_end;
};

// Makes the backend of one rank in its process.
using MakeBackend = std::function<std::unique_ptr<runtime::Backend>(
    const runtime::RankEnvironment& environment, runtime::Coordinator& coordinator,
    runtime::OpBoard& board)>;

// One rank's work on its backend, from the first step to the last checkpoint.
void run_rank(const RankRun& run, runtime::RankExecutor& executor, runtime::Backend& backend,
              runtime::Coordinator& coordinator);

// Ranks as processes: those a launcher started (this one is one of them), else started here.
// Returns the exit code. Throws Error when the launcher's world size is not the program's, or its
// ranks were told unlike things.
int run_on_processes(const RankRun& run, const std::optional<runtime::RankEnvironment>& environment,
                     const MakeBackend& make_backend, std::FILE* err);

}  // namespace trireme::tools
