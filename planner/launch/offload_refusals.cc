// The keys: DeepSpeed's offload_optimizer, offload_param and cpu_checkpointing, PyTorch's one
// switch, Megatron's --optimizer-cpu-offload and --cpu-offloading, whose conditions are those of
// its own start-up checks (megatron/training/arguments.py).
#include "planner/launch/launch_facts.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace trireme::planner {
namespace {

constexpr const char* kOption = "--offload";

// The option with which this layout shards so: over all data-parallel ranks.
std::string right_with(Sharding sharding, Plan plan) {
  if (plan.data_parallel() == 1) {
    return fmt::format("--sharding {}", to_string(sharding));
  }
  plan.sharded = plan.data_parallel();
  plan.replicas = 1;
  plan.sharding = sharding;
  return fmt::format("--layout {}", short_form(plan));
}

void refuse_for_deepspeed(const LaunchPlan& launch) {
  const Offload& offload = launch.job.offload;
  const Sharding sharding = launch.plan.sharding;
  if (offload.gradients != OffloadTo::kNone && offload.optimizer == OffloadTo::kNone) {
    refuse(kOption, "DeepSpeed's gradients go with the optimizer; optimizer would be right");
  }
  if (offload.optimizer != OffloadTo::kNone && sharding == Sharding::kNone) {
    refuse(kOption, fmt::format("offload_optimizer needs ZeRO; {} would be right",
                                right_with(Sharding::kOptimizer, launch.plan)));
  }
  if (offload.parameters != OffloadTo::kNone && sharding != Sharding::kFull) {
    refuse(kOption, fmt::format("offload_param needs ZeRO 3; {} would be right",
                                right_with(Sharding::kFull, launch.plan)));
  }
  if (offload.activations != OffloadTo::kNone &&
      (launch.plan.recompute != Recompute::kFull || offload.activation_share < 1)) {
    refuse(kOption,
           "cpu_checkpointing moves the checkpoints of every layer; --recompute full and "
           "activations without a share would be right");
  }
}

void refuse_for_torch(const LaunchPlan& launch, const char* key) {
  const Offload& offload = launch.job.offload;
  if (offload.activations != OffloadTo::kNone) {
    refuse(kOption, fmt::format("{} moves parameters, gradients and states; activations are moved "
                                "in the program's code",
                                key));
  }
  if (offload.any() && launch.plan.sharding != Sharding::kFull) {
    refuse(kOption, fmt::format("{} is of sharded parameters; {} would be right", key,
                                right_with(Sharding::kFull, launch.plan)));
  }
}

void refuse_for_megatron(const LaunchPlan& launch) {
  const Offload& offload = launch.job.offload;
  if (offload.gradients != OffloadTo::kNone || offload.parameters != OffloadTo::kNone) {
    refuse(kOption,
           "Megatron-LM moves optimizer states and activations alone; optimizer[=SHARE] "
           "would be right");
  }
  const bool own_sharder = launch.job.framework.sharder == Sharder::kBuffers;
  if (offload.optimizer != OffloadTo::kNone &&
      (launch.plan.sharding != Sharding::kOptimizer || !own_sharder)) {
    refuse(kOption, fmt::format("--optimizer-cpu-offload is of the distributed optimizer; {}{} "
                                "would be right",
                                own_sharder ? "" : "--framework megatron with ",
                                right_with(Sharding::kOptimizer, launch.plan)));
  }
  const double layers = offload.activation_share * static_cast<double>(launch.job.model.layers);
  const bool whole = std::abs(layers - std::round(layers)) < 1e-6;
  if (offload.activations != OffloadTo::kNone &&
      (launch.plan.pipeline > 1 || launch.plan.recompute != Recompute::kNone || !whole ||
       layers > static_cast<double>(launch.job.model.layers - 1) + 0.5)) {
    const std::int64_t half = launch.job.model.layers / 2;
    refuse(kOption,
           fmt::format("--cpu-offloading is of whole layers, {} at most, without pipeline and "
                       "recompute; activations={:.6g} with pp 1 would be right",
                       launch.job.model.layers - 1,
                       static_cast<double>(half) / static_cast<double>(launch.job.model.layers)));
  }
}

}  // namespace

void refuse_unknown_offload(LaunchFormat format, const LaunchPlan& launch) {
  const Offload& offload = launch.job.offload;
  if (!offload.any()) {
    return;
  }
  for (const OffloadTo to :
       {offload.optimizer, offload.gradients, offload.parameters, offload.activations}) {
    if (to == OffloadTo::kNvme) {
      refuse(kOption,
             "=nvme needs the path of your drives, which is not known here; export with "
             "=host and write device and nvme_path yourself");
    }
  }
  switch (format) {
    case LaunchFormat::kDeepspeed:
      return refuse_for_deepspeed(launch);
    case LaunchFormat::kTorchtitan:
      return refuse_for_torch(launch, "enable_cpu_offload");
    case LaunchFormat::kAccelerate:
      return refuse_for_torch(launch, "fsdp_offload_params");
    case LaunchFormat::kMegatron:
    case LaunchFormat::kMegatronBridge:
      return refuse_for_megatron(launch);
  }
}

}  // namespace trireme::planner
