// What is trained, on which samples, and what lives outside the GPU: options of the commands that
// predict (estimate, plan, explain, whatif, budget); what is trained also of those that write the
// program (simulate, run).
#pragma once

#include "planner/plan/job.h"
#include "tools/options.h"

namespace trireme::tools {

void add_trained_options(Command& command, JobOptions& options);
// Those, and of samples and the host.
void add_sample_options(Command& command, JobOptions& options);
// Fills job.training and job.offload. Throws Error.
void apply_training(const JobOptions& options, planner::Job& job);

}  // namespace trireme::tools
