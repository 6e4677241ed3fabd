// Checkpoints: the optimizer's state (masters and moments) by parameter name and range, so that any
// layout can load what any other saved. DIR/step-N holds one data file a rank and checkpoint.json,
// which lists the pieces; DIR/latest names the newest. Everything is written under a temporary
// name, flushed, and renamed last: a crash or a full disk leaves the previous checkpoint whole.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/coordinator.h"
#include "runtime/execute.h"

namespace trireme::runtime {

struct CheckpointStep {
  std::int64_t step = 0;       // steps done
  std::int64_t sequences = 0;  // global sequences consumed
  std::uint64_t seed = 0;
};

// Called by every rank. Throws Error when a file cannot be written (the message names it).
void save_checkpoint(const std::string& folder, const CheckpointStep& at, RankExecutor& executor,
                     Coordinator& coordinator);

// Called by every rank; `folder` is what was given to save_checkpoint, or one of its step-N. Throws
// Error when there is none, or when it lacks a parameter, or a parameter has another shape.
CheckpointStep load_checkpoint(const std::string& folder, RankExecutor& executor);

}  // namespace trireme::runtime
