// Files of programs that are not read: whose they are, and what would be right instead.
#include <filesystem>
#include <span>

#include "core/error.h"
#include "planner/launch/read_launch.h"

namespace trireme::planner {
namespace {

struct OtherFile {
  std::string_view part, what;
};
constexpr OtherFile kOtherYamls[] = {
    {"\n  pp_engine:",
     "is nanotron's; its sizes (parallelism: dp, tp, pp) as options of `trireme estimate` would be "
     "right"},
    {"\ntrain_loader:",
     "is llm-foundry's; its model and batch as options of `trireme estimate --framework fsdp1 "
     "--sharding full` would be right"},
    {"device_train_microbatch_size:",
     "is OLMo's; its model and batch as options of `trireme estimate --framework fsdp1 --sharding "
     "full` would be right"},
    {"_component_: torchtune.",
     "is torchtune's; its model, batch and recompute as options of `trireme estimate --framework "
     "fsdp2 --sharding full` would be right"},
    {"strategy_args:",
     "is ROLL's; the strategy_config of its actor as Megatron-LM's flags "
     "(--tensor-model-parallel-size 4, …) or a DeepSpeed JSON would be right"},
    {"fsdp_mode:",
     "is VeOmni's; its model, batch and sharding as options of `trireme estimate --framework fsdp2 "
     "--sharding full` would be right"},
    {"exp_manager:",
     "is NeMo's, without a batch and degrees beside a model; they as Megatron-LM's flags "
     "(--tensor-model-parallel-size 4, …) would be right"},
    {"\n  gpu_memory_utilization:",
     "generates from a model (verl's rollouts alone), and has neither gradients nor an optimizer; "
     "the command or YAML that trains it would be right"},
    {"apiVersion:",
     "is a Kubernetes manifest; the script or configuration that its container starts would be "
     "right"},
};
constexpr OtherFile kOtherTomls[] = {
    {"[policy.parallelism]",
     "is Cosmos-RL's; its model and [policy.parallelism] as options of `trireme estimate "
     "--framework fsdp2 --sharding full` would be right"},
    {"[orchestrator",
     "is prime-rl's; the trainer's model and batch as options of `trireme estimate --framework "
     "fsdp2 --sharding full` would be right"},
    {"[deployment]",
     "is prime-rl's; its model and batch as options of `trireme estimate --framework fsdp2 "
     "--sharding full` would be right"},
    {"\n[distributed]",
     "is none of torchtitan's, which has [model], [training] and [parallelism]; its model, batch "
     "and [distributed] as options of `trireme estimate --framework fsdp2` would be right, with "
     "--set "
     "whole_logits=true where its head gathers the logits of tp"},
};
constexpr OtherFile kOtherFiles[] = {
    {"micro_train_batch_size_per_gpu=",
     "starts SkyRL's SFT; its model, batch and fsdp_config as options of `trireme estimate "
     "--framework fsdp2 --sharding full`, or its megatron_config as Megatron-LM's flags, would be "
     "right"},
    {"generate.test_generate",
     "generates from a checkpoint of torchtitan, and has neither gradients nor an optimizer; the "
     "TOML after its --config, which trained it, would be right"},
    {"Trainer.Config(",
     "is torchtitan's configuration in Python; the TOML of torchtitan v0.2 that says the same "
     "([model], [training], [parallelism]) would be right"},
    {"nemo_automodel",
     "is NeMo Automodel's; a layout for `trireme estimate --framework nemo-automodel`, or "
     "accelerate's YAML, would be right"},
    {"pipe_parallel_size",
     "is GPT-NeoX's; its sizes as Megatron-LM's flags (--pipeline-model-parallel-size 4, …) would "
     "be right"},
    {"pipe-parallel-size",
     "is GPT-NeoX's; its sizes as Megatron-LM's flags (--pipeline-model-parallel-size 4, …) would "
     "be right"},
    {"actor_rollout_ref.",
     "starts verl from Python; its overrides as a command (python -m verl.trainer.main_ppo "
     "actor_rollout_ref.model.path=… …) would be right"},
    {"--yaml-cfg",
     "takes its settings from the YAML after its --yaml-cfg, which is not read; those settings as "
     "Megatron-LM's flags would be right"},
    {"framework: megatron",
     "is Primus'; its overrides as Megatron-LM's flags (--tensor-model-parallel-size 4, …) would "
     "be right"},
    {"trainer.strategy.",
     "is NeMo 2's; overrides of Megatron-Bridge (model.tensor_model_parallel_size=4, "
     "train.global_batch_size=128, …) would be right"},
    {"tensor_model_parallel_size:",
     "is NeMo's YAML; its model section as Megatron-LM's flags (--tensor-model-parallel-size 4, …) "
     "would be right"},
    {"TrainingArguments(",
     "is a script of transformers' Trainer; the DeepSpeed JSON or accelerate YAML that it starts "
     "with would be right, with --model, --seq and --micro-batch"},
    {"--fsdp \"",
     "starts transformers' Trainer; its --fsdp as accelerate's YAML (fsdp_config) would be right, "
     "with --model, --seq and --micro-batch"},
    {"model_name_or_path:",
     "is a recipe of transformers' Trainer; the DeepSpeed JSON or accelerate YAML that it starts "
     "with would be right, with --model, --seq and --micro-batch"},
    {"accelerate launch",
     "starts accelerate; the YAML after its --config_file would be right, with --model"},
    {"--deepspeed",
     "starts DeepSpeed; the JSON after its --deepspeed would be right, with --model"},
    {"run_train.sh",
     "starts torchtitan; the TOML of its CONFIG_FILE would be right, with its --section.key VALUE "
     "after --"},
};

void refuse_any_of(std::span<const OtherFile> others, const std::string& path,
                   std::string_view text) {
  for (const OtherFile& other : others) {
    if (text.find(other.part) != std::string_view::npos) {
      throw Error(path, std::string(other.what));
    }
  }
}

}  // namespace

void refuse_other_file(std::string_view text, const std::string& path, bool has_format) {
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension == ".yaml" || extension == ".yml") {
    refuse_any_of(kOtherYamls, path, text);
  }
  if (extension == ".toml") {
    refuse_any_of(kOtherTomls, path, text);
  }
  if (!has_format) {
    refuse_any_of(kOtherFiles, path, text);
  }
}

}  // namespace trireme::planner
