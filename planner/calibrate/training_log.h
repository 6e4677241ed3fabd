// Step times out of the logs that trainings leave behind: Megatron-LM's iteration lines,
// torchtitan's step lines, and "step_seconds": [0.41, 0.4] of programs of one's own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme::planner {

struct StepLog {
  std::string format;                     // "megatron", "torchtitan"
  std::vector<double> step_seconds;       // Megatron-LM prints them
  std::vector<double> tokens_per_second;  // of one GPU: what torchtitan prints
};

// Lines in any order among others, with time stamps, rank prefixes and colours. Throws Error when
// no line of either kind is there.
StepLog parse_step_log(std::string_view text, const std::string& where);

// Median step time of the log; the first fifth (one line at least when there are three, two when
// there are five) is left out, since it holds compilation and the optimizer's first allocations.
// `tokens` of one step over all `gpus`.
double steady_step_seconds(const StepLog& log, double tokens, double gpus);

}  // namespace trireme::planner
