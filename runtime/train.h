// The training loop of one rank: data, learning rate, steps, checkpoints. All ranks call it alike.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/coordinator.h"
#include "runtime/execute.h"

namespace trireme::runtime {

struct TrainSettings {
  std::int64_t steps = 10;  // more steps, counted from the checkpoint when resuming
  std::uint64_t seed = 1;
  double learning_rate = 3e-4;  // reached after `warmup` steps in a straight line, then kept
  std::int64_t warmup = 0;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.1;
  double max_norm = 1.0;        // 0: no clipping
  std::string save_folder;      // empty: none
  std::int64_t save_every = 0;  // steps between checkpoints; the last step always saves
  std::string resume_folder;
  // Measures ops in every second step, the first left out (all steps when there is one).
  bool timed = false;
  Seconds timeout{120};  // without progress
};

// What all ranks did in one step, by rank. Rank 0 alone receives it.
using StepResults = std::vector<StepResult>;

// `on_step` is called on rank 0 after each step with its 0-based number over the whole training.
// Throws Error.
void train(RankExecutor& executor, Coordinator& coordinator, const TokenSource& tokens,
           const TrainSettings& settings,
           const std::function<void(std::int64_t step, StepResults results)>& on_step);

// Seconds from rank 0's start to the last rank's end, and the loss: the one rank's that has it (the
// last stage).
double step_seconds(const StepResults& results);
double loss_of(const StepResults& results);

}  // namespace trireme::runtime
