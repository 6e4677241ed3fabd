// Sources: DeepSpeed edaa7221, docs/_pages/config-json.md (AutoTP, AutoEP), runtime/zero/mics.py,
// runtime/pipe/module.py.
#include "planner/launch/deepspeed_refusals.h"

#include <fmt/format.h>

#include "planner/plan/stages.h"

namespace trireme::planner {
namespace {

// Tensor, sequence, expert and pipeline parallelism each come with ZeRO, not with each other.
void refuse_combinations(const Plan& plan) {
  struct Used {
    const char* axis;
    bool in_use;
  };
  const Used axes[] = {{"tp", plan.tensor > 1},
                       {"cp", plan.context > 1},
                       {"ep", plan.expert > 1},
                       {"pp", plan.pipeline > 1}};
  const char* first = nullptr;
  for (const Used& used : axes) {
    if (used.in_use && first != nullptr) {
      refuse(used.axis, fmt::format("DeepSpeed's configuration has no {} with {}; one of the two "
                                    "at 1 would be right",
                                    used.axis, first));
    }
    first = used.in_use ? used.axis : first;
  }
}

// A 16-bit model with fp32 sums needs a stage, which over several ranks shards them.
void refuse_unsharded_sums(const LaunchPlan& launch) {
  const Plan& plan = launch.plan;
  if (plan.sharding == Sharding::kNone && plan.data_parallel() > 1 &&
      launch.job.precision != topologies::Precision::kFp32 &&
      launch.job.framework.gradient_bytes == 4) {
    refuse("sharding",
           "DeepSpeed keeps fp32 sums beside 16-bit parameters with a ZeRO stage only; --sharding "
           "optimizer would be right");
  }
}

void refuse_degrees(const LaunchPlan& launch) {
  const Plan& plan = launch.plan;
  refuse_other_orders(plan, "DeepSpeed");
  refuse_combinations(plan);
  if (plan.tensor > 1 && plan.sequence_parallel) {
    refuse("sequence_parallel",
           "DeepSpeed's AutoTP keeps norms and residuals whole; "
           "--no-sequence-parallel would be right");
  }
  if (plan.virtual_pipeline > 1) {
    refuse("vpp", "DeepSpeed's pipeline engine has one chunk a stage; --vpp 1 would be right");
  }
  const std::int64_t expert_tensor = plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor;
  if (launch.job.model.moe && expert_tensor != plan.tensor) {
    refuse("etp", fmt::format("DeepSpeed splits experts as it does the rest; --etp {} would be "
                              "right",
                              plan.tensor));
  }
  const auto chunks = chunks_of(launch.job, plan);
  for (const Chunk& chunk : chunks) {
    if (chunk.own_layers() != launch.job.model.layers / plan.pipeline) {
      refuse("stage-layers",
             "DeepSpeed's JSON cannot say an uneven split (PipelineModule's "
             "partition_method does, in the program); equal stages would be right");
    }
  }
}

void refuse_sharding(const LaunchPlan& launch) {
  const Plan& plan = launch.plan;
  const bool full = plan.sharding == Sharding::kFull;
  const bool hybrid = plan.sharding != Sharding::kNone && plan.replicas > 1;
  if (hybrid && (!full || plan.expert > 1 || plan.context > 1)) {
    refuse("dp", fmt::format("DeepSpeed shards in groups (MiCS) under ZeRO-3 alone; --sharding "
                             "full without ep and cp, or --dp 1 --fsdp {}, would be right",
                             plan.data_parallel()));
  }
  if (full && !plan.reshard_after_forward) {
    refuse("reshard_after_forward", "ZeRO-3 always reshards; --sharding gradients would be right");
  }
  if (full && plan.fsdp_unit != 1) {
    refuse("fsdp-unit", "ZeRO-3 gathers by module; --fsdp-unit block would be right");
  }
}

void refuse_recompute(const LaunchPlan& launch) {
  const Plan& plan = launch.plan;
  if (plan.recompute == Recompute::kSelective) {
    refuse("recompute",
           "DeepSpeed recomputes whole layers; --recompute full or none would be "
           "right");
  }
  if (plan.recompute == Recompute::kFull && plan.recompute_layers >= 0 &&
      plan.recompute_layers < launch.job.model.layers / plan.pipeline) {
    refuse("recompute-layers", "DeepSpeed recomputes all layers or none; leave it out");
  }
}

void refuse_types(const Job& job) {
  const Framework& framework = job.framework;
  if (job.precision == topologies::Precision::kFp8) {
    refuse("--precision", "DeepSpeed's JSON has bf16, fp16 and fp32, not fp8");
  }
  const bool mixed = job.precision != topologies::Precision::kFp32;
  if (mixed && (framework.master_bytes != 4 || framework.mixed_precision_pure)) {
    refuse("parameter_dtype",
           "DeepSpeed keeps an fp32 copy of the parameters; --set "
           "parameter_dtype=fp32 would be right");
  }
  if (framework.moment_bytes != 8 || job.optimizer == Optimizer::kAdam8bit) {
    refuse("--optimizer",
           "DeepSpeed's JSON has Adam and SGD with fp32 moments; --optimizer adam "
           "would be right");
  }
}

void refuse_choices(const Job& job) {
  const Framework& framework = job.framework;
  if (framework.compile || framework.traced_graph) {
    refuse("compile",
           "DeepSpeed's JSON does not compile layers; --set compile=false would be "
           "right");
  }
  if (framework.tp_comm_overlap) {
    refuse("tp_comm_overlap",
           "DeepSpeed's AutoTP has none; --set tp_comm_overlap=false would be right");
  }
}

}  // namespace

void refuse_plans_unknown_to_deepspeed(const LaunchPlan& launch) {
  refuse_degrees(launch);
  refuse_sharding(launch);
  refuse_recompute(launch);
  refuse_types(launch.job);
  refuse_choices(launch.job);
  refuse_unsharded_sums(launch);
}

}  // namespace trireme::planner
