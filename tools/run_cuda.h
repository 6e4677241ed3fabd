// The cuda side of `trireme run`: one process a GPU. In a build without CUDA both functions refuse.
#pragma once

#include <cstdio>
#include <optional>

#include "runtime/launch.h"
#include "tools/run_ranks.h"
#include "tools/run_report.h"

namespace trireme::tools {

// How many GPUs this machine shows, without starting CUDA in this process; 0 in a build without it.
int visible_gpus();

// Throws Error of kind kMissingMachine when this build or this machine has no CUDA.
void require_cuda();

// Runs the ranks on GPUs and returns the exit code. Fills in the description's device in each
// rank's process before the first step, so that the report can name it.
int run_on_cuda(const RankRun& run, const std::optional<runtime::RankEnvironment>& environment,
                RunDescription& description, std::FILE* err);

}  // namespace trireme::tools
