// Fine-tuning rows in two halves by the program that ran them: those that values were set with, and
// those that are only scored.
#pragma once

#include <vector>

#include "planner/calibrate/validation.h"

namespace trireme::tools {

// Mean errors of step time and memory of each program, half by half. Nothing where no row is of
// fine-tuning.
void print_finetune_split(const std::vector<planner::ValidationCase>& cases,
                          const std::vector<planner::ValidatedRow>& rows);

}  // namespace trireme::tools
