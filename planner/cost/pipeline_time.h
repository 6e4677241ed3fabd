// Step time of one pipeline's micro-batches from the times of its stages, by schedule
// (training_systems section 4).
#pragma once

#include <cstdint>

#include "planner/plan/framework.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// Sums over the pipeline ranks and the slowest one; what the closed forms need of uneven stages.
struct StageTotals {
  double sum = 0;      // of forward + backward, all ranks
  double slowest = 0;  // of forward + backward, one rank, all its chunks
  double sum_forward = 0, slowest_forward = 0;
  double sum_backward = 0, slowest_backward = 0;
  double exchanges = 2;   // of the slowest rank with its neighbours, a micro-batch and chunk
  double bottleneck = 0;  // 1F1B: the whole with blocking exchanges; a split backward: the whole;
                          // in a V: the whole but for messages; chunks in turn: a micro-batch's
                          // turns; 0: by sum and slowest
  double messages = 0;    // in a V: what they add to it
  double before_message = 0;   // of a chunk's backward: what needs no message (recompute)
  double before_messages = 0;  // the same, sum over all ranks
  double weight_gradient = 0;  // of the slowest rank: what a split backward can move
};

// Adds `count` ranks of these seconds to the sums and the slowest passes.
void add_ranks(StageTotals& totals, double count, double forward, double backward);

struct PipelineTime {
  double total = 0;     // first forward to last backward
  double work = 0;      // of it, the slowest rank's own micro-batches
  double exchange = 0;  // exposed sends and receives of the slowest rank
  double bubble = 0;    // the rest: waiting for the others
};

// `hop` is one transfer between neighbours; `synchronisation` what a blocking exchange costs beside
// it.
struct HopTimes {
  double transfer = 0;
  double synchronisation = 0;
  bool blocking = true;  // 1F1B: the exchange stops compute
  [[nodiscard]] double cost() const { return transfer + synchronisation; }
  bool overlapped = true;  // interleaved: sends run beside the next chunk
  // Seconds that a message goes on beside the compute of chunks in turn.
  [[nodiscard]] double beside_chunks(const Plan& plan) const {
    return plan.schedule == Schedule::kInterleaved && overlapped ? transfer : 0;
  }
};

// Whether a stage computes nothing while it exchanges with its neighbours. The zero-bubble
// schedules come with a runtime of their own that never does (Qi et al. 2024), nor does PyTorch's,
// which runs those of a V (torch.distributed.pipelining, _PipelineScheduleRuntime).
bool exchanges_block(const Framework& framework, const Plan& plan);

PipelineTime pipeline_time(const Plan& plan, const StageTotals& stages, const HopTimes& hop);

}  // namespace trireme::planner
