#include "planner/cost/state_memory.h"

#include <algorithm>

#include "planner/cost/frozen_bytes.h"
#include "planner/cost/optimizer_bytes.h"
#include "planner/plan/moved_offload.h"
#include "planner/plan/shape.h"

namespace trireme::planner {

using topologies::Precision;

namespace {

constexpr double kFp32 = 4;

}  // namespace

double moment_bytes(const Job& job) {
  switch (job.optimizer) {
    case Optimizer::kAdam:
      return job.framework.moment_bytes;
    case Optimizer::kAdam8bit:
      return 2 + 2 * 4.0 / 256;  // bitsandbytes: two bytes and an fp32 maximum per block of 256 for
                                 // each moment
    case Optimizer::kSgd:
      return job.framework.sgd_moment_bytes;
  }
  return 0;
}

namespace {

// Megatron, and whoever keeps one gradient buffer for the whole step.
StateBytes flat_buffers(const Job& job, const Plan& plan, double shards) {
  const Framework& framework = job.framework;
  const bool full_precision = job.precision == Precision::kFp32;
  // Megatron's --fp16 accumulates gradients in fp16; --bf16 switches fp32 accumulation on by
  // itself.
  const bool half_gradients = job.precision == Precision::kFp16;
  const double gradient = half_gradients ? 2 : framework.gradient_bytes;
  // Two stages a rank: twice the ranks share the states of one.
  const double ranks = shards * (runs_two_ways(job, plan) ? 2 : 1);
  const double over_optimizer = plan.sharding >= Sharding::kOptimizer ? ranks : 1;
  StateBytes bytes;
  bytes.parameters = (full_precision ? 4 : framework.parameter_bytes) /
                     (plan.sharding == Sharding::kFull ? shards : 1);
  if (plan.sharding == Sharding::kFull && framework.sharder == Sharder::kTrireme &&
      !streams_optimizer(job)) {
    bytes.parameters = 0;  // gathered from the masters
  }
  bytes.gradients = gradient / (plan.sharding >= Sharding::kGradients ? shards : 1);
  bytes.main_copy = (full_precision ? 0 : framework.master_bytes) / over_optimizer;
  bytes.optimizer = bytes.main_copy + moment_bytes(job) / over_optimizer;
  const bool casts = gradient < 4 && framework.master_bytes > 0 && !full_precision;
  bytes.step = ((casts ? 4 : 0) + framework.step_bytes) / over_optimizer;
  return bytes;
}

// PyTorch: the stored parameter is the optimizer's own.
StateBytes torch_states(const Job& job, const Plan& plan, double shards) {
  const Framework& framework = job.framework;
  const double over = plan.sharding == Sharding::kNone ? 1 : shards;
  const bool stored_fp32 = framework.fp32_shard_is_parameter || job.precision == Precision::kFp32;
  StateBytes bytes;
  bytes.parameters = (stored_fp32 ? 4 : framework.parameter_bytes) / over;
  bytes.gradients = (stored_fp32 ? 4 : framework.gradient_bytes) / over;
  bytes.optimizer = moment_bytes(job) / over;
  bytes.step = framework.foreach_optimizer ? bytes.parameters : 0;
  return bytes;
}

// Adapters are parameters of their own type, whatever the base is stored in; Adam's moments have
// the parameter's type.
StateBytes torch_adapters(const Job& job, const Plan& plan, double shards) {
  const double over = plan.sharding == Sharding::kNone ? 1 : shards;
  StateBytes bytes;
  bytes.parameters = job.training.adapter_bytes / over;
  bytes.gradients = bytes.parameters;
  bytes.optimizer =
      job.optimizer == Optimizer::kAdam ? 2 * bytes.parameters : moment_bytes(job) / over;
  bytes.step = job.framework.foreach_optimizer ? bytes.parameters : 0;
  return bytes;
}

// DeepSpeed's BF16 and ZeRO optimizers: 16-bit gradients, and fp32 ones beside them: sums where the
// configuration asks for fp32 (data_types.grad_accum_dtype), else copies that the step makes of the
// rank's part (runtime/zero/stage_1_and_2.py step: flattened, then cast; stage3.py does so by
// sub-groups).
StateBytes zero_states(const Job& job, const Plan& plan, double shards) {
  const Framework& framework = job.framework;
  const Sharding sharding = run_sharding(job, plan).sharding;
  const double over_optimizer = plan.sharding >= Sharding::kOptimizer ? shards : 1;
  const double sums = zero_sum_bytes(job, sharding);
  const double narrow = framework.parameter_bytes;
  const bool wide = sums >= kFp32;
  StateBytes bytes;
  bytes.parameters = narrow / (sharding == Sharding::kFull ? shards : 1);
  bytes.gradients = sums / (sharding >= Sharding::kGradients ? shards : 1);
  bytes.main_copy = framework.master_bytes / over_optimizer;
  bytes.optimizer = bytes.main_copy + moment_bytes(job) / over_optimizer;
  // Beside the rank's own sums: laid together, and cast where they are no fp32 yet.
  const double copies = (wide ? kFp32 : sums + kFp32) / over_optimizer;
  if (sharding == Sharding::kGradients) {
    bytes.step = copies;
  } else if (sharding == Sharding::kOptimizer) {
    // Gradients of other ranks' parts have gone.
    bytes.step = std::max(0.0, copies - sums * (1 - 1 / over_optimizer));
  }
  return bytes;
}

}  // namespace

StateBytes state_bytes(const Job& job, const Plan& plan, double shards) {
  switch (job.framework.states) {
    case StateLayout::kFlatBuffers:
      return flat_buffers(job, plan, shards);
    case StateLayout::kTorch:
      return torch_states(job, plan, shards);
    case StateLayout::kDeepSpeed:
      return zero_states(job, plan, shards);
  }
  return {};
}

double zero_sum_bytes(const Job& job, Sharding sharding) {
  return job.precision == Precision::kFp32  ? kFp32
         : sharding == Sharding::kGradients ? job.framework.parameter_bytes
                                            : job.framework.gradient_bytes;
}

double zero_sub_group(const Job& job) {
  return static_cast<double>(job.framework.sub_group_elements);
}

double zero_step_copies(const Job& job, const Plan& plan, double elements, double here) {
  const Framework& framework = job.framework;
  if (framework.states != StateLayout::kDeepSpeed) {
    return 0;
  }
  if (plan.sharding != Sharding::kFull) {
    return (1 - here) * framework.offload_staging_bytes * elements;
  }
  const double laid = zero_sum_bytes(job, plan.sharding);
  const double cast = laid < kFp32 ? kFp32 : 0;
  return here * (laid + cast) * std::min(elements, zero_sub_group(job));
}

StateBytes adapter_state_bytes(const Job& job, const Plan& plan, double shards) {
  return job.framework.states == StateLayout::kTorch ? torch_adapters(job, plan, shards)
                                                     : state_bytes(job, plan, shards);
}

double frozen_element_bytes(const Job& job) {
  const bool low = job.precision == Precision::kFp8 || job.precision == Precision::kFp4;
  const bool plain = job.training.base == BaseFormat::kSixteenBit;
  return low && plain && job.framework.fp8_parameters ? 1 : frozen_bytes(job.training.base);
}

double frozen_state_bytes(const Job& job, const Plan& plan, double shards) {
  const bool torch = job.framework.states == StateLayout::kTorch;
  const bool over = plan.sharding == Sharding::kFull || (torch && plan.sharding != Sharding::kNone);
  return frozen_element_bytes(job) / (over ? shards : 1);
}

double compute_bytes(const Job& job) {
  return job.precision == Precision::kFp32 ? 4 : job.framework.parameter_bytes;
}

}  // namespace trireme::planner
