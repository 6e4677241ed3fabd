#include "tests/faults/tiny_program.h"

#include "planner/lower/lower.h"
#include "runtime/cpu/backend.h"

namespace trireme::tests {

StepProgram tiny_program(std::int64_t ranks) {
  planner::Job job;
  models::Transformer& model = job.model;
  model.name = "tiny";
  model.layers = 1;
  model.hidden = 16;
  model.heads = 4;
  model.kv_heads = 2;
  model.head_dim = 4;
  model.ffn = 24;
  model.vocab = 32;
  model.max_sequence = 16;
  job.framework = planner::find_framework("trireme");
  job.sequence = 16;
  job.global_batch = 8;
  job.cluster.gpus = ranks;
  planner::Plan plan;
  plan.sharded = ranks;
  plan.sharding = ranks > 1 ? planner::Sharding::kFull : planner::Sharding::kNone;
  plan.micro_batches = job.global_batch / ranks;
  return planner::lower(job, plan,
                        {.widths = runtime::cpu::widths_of(runtime::cpu::CpuOptions{}.arithmetic),
                         .executable = true});
}

}  // namespace trireme::tests
