// What of an offload a format has no key for: DeepSpeed's offload_optimizer, offload_param and
// cpu_checkpointing, PyTorch's one switch, Megatron's --optimizer-cpu-offload and --cpu-offloading,
// whose conditions are those of its own start-up checks (megatron/training/arguments.py).
#include <cmath>

#include "planner/launch/launch_facts.h"
#include "planner/launch/refusals.h"

namespace trireme::planner {
namespace {

bool moves(OffloadTo to) {
  return to != OffloadTo::kNone;
}

bool moves_to_nvme(const Job& job) {
  const Offload& offload = job.offload;
  return offload.optimizer == OffloadTo::kNvme || offload.gradients == OffloadTo::kNvme ||
         offload.parameters == OffloadTo::kNvme || offload.activations == OffloadTo::kNvme;
}

constexpr JobRefusal kNvme = {
    "--offload", moves_to_nvme,
    "=nvme needs the path of your drives, which is not known here; export with =host and write "
    "device and nvme_path yourself"};

constexpr JobRefusal kDeepspeedJobOffload[] = {
    kNvme,
    {"--offload",
     [](const Job& job) { return moves(job.offload.gradients) && !moves(job.offload.optimizer); },
     "DeepSpeed's gradients go with the optimizer; optimizer would be right"},
    {"--offload",
     [](const Job& job) {
       return moves(job.offload.activations) && job.offload.activation_share < 1;
     },
     "cpu_checkpointing moves the checkpoints of every layer; --recompute full and activations "
     "without a share would be right"},
};

constexpr Refusal kDeepspeedOffload[] = {
    {"--offload",
     [](const Launched& l) {
       return moves(l.job.offload.optimizer) && l.plan.sharding == Sharding::kNone;
     },
     "offload_optimizer needs ZeRO; {shard_states} would be right"},
    {"--offload",
     [](const Launched& l) {
       return moves(l.job.offload.parameters) && l.plan.sharding != Sharding::kFull;
     },
     "offload_param needs ZeRO 3; {shard_all} would be right"},
    {"--offload",
     [](const Launched& l) {
       return moves(l.job.offload.activations) && l.plan.recompute != Recompute::kFull;
     },
     "cpu_checkpointing moves the checkpoints of every layer; --recompute full and activations "
     "without a share would be right"},
};

bool moves_activations(const Job& job) {
  return moves(job.offload.activations);
}

bool moves_what_is_whole(const Launched& l) {
  return l.job.offload.any() && l.plan.sharding != Sharding::kFull;
}

constexpr JobRefusal kTorchtitanJobOffload[] = {
    kNvme,
    {"--offload", moves_activations,
     "enable_cpu_offload moves parameters, gradients and states; activations are moved in the "
     "program's code"},
};
constexpr Refusal kTorchtitanOffload[] = {
    {"--offload", moves_what_is_whole,
     "enable_cpu_offload is of sharded parameters; {shard_all} would be right"},
};

constexpr JobRefusal kAccelerateJobOffload[] = {
    kNvme,
    {"--offload", moves_activations,
     "fsdp_offload_params moves parameters, gradients and states; activations are moved in the "
     "program's code"},
};
constexpr Refusal kAccelerateOffload[] = {
    {"--offload", moves_what_is_whole,
     "fsdp_offload_params is of sharded parameters; {shard_all} would be right"},
};

bool has_own_sharder(const Job& job) {
  return job.framework.sharder == Sharder::kBuffers;
}

// --cpu-offloading-num-layers is below the model's layers.
bool moves_no_whole_layers(const Job& job) {
  const double layers = job.offload.activation_share * static_cast<double>(job.model.layers);
  const bool whole = std::abs(layers - std::round(layers)) < 1e-6;
  return moves_activations(job) &&
         (!whole || layers > static_cast<double>(job.model.layers - 1) + 0.5);
}

constexpr std::string_view kWholeLayers =
    "--cpu-offloading is of whole layers, {layers_but_one} at most, without pipeline and "
    "recompute; activations={half_the_layers} with pp 1 would be right";

constexpr JobRefusal kMegatronJobOffload[] = {
    kNvme,
    {"--offload",
     [](const Job& job) { return moves(job.offload.gradients) || moves(job.offload.parameters); },
     "Megatron-LM moves optimizer states and activations alone; optimizer[=SHARE] would be right"},
    {"--offload",
     [](const Job& job) { return moves(job.offload.optimizer) && !has_own_sharder(job); },
     "--optimizer-cpu-offload is of the distributed optimizer; --framework megatron with "
     "--sharding optimizer would be right"},
    {"--offload", moves_no_whole_layers, kWholeLayers},
};
constexpr Refusal kMegatronOffload[] = {
    {"--offload",
     [](const Launched& l) {
       return moves(l.job.offload.optimizer) && l.plan.sharding != Sharding::kOptimizer;
     },
     "--optimizer-cpu-offload is of the distributed optimizer; {shard_states} would be right"},
    {"--offload",
     [](const Launched& l) {
       return moves_activations(l.job) &&
              (l.plan.pipeline > 1 || l.plan.recompute != Recompute::kNone);
     },
     kWholeLayers},
};

}  // namespace

OffloadRefusals offload_refusals(LaunchFormat format) {
  switch (format) {
    case LaunchFormat::kDeepspeed:
      return {kDeepspeedJobOffload, kDeepspeedOffload};
    case LaunchFormat::kTorchtitan:
      return {kTorchtitanJobOffload, kTorchtitanOffload};
    case LaunchFormat::kAccelerate:
      return {kAccelerateJobOffload, kAccelerateOffload};
    case LaunchFormat::kMegatron:
    case LaunchFormat::kMegatronBridge:
      return {kMegatronJobOffload, kMegatronOffload};
  }
  return {};
}

}  // namespace trireme::planner
