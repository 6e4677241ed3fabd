// SkyRL's reinforcement learning, whose policy trains as verl's actor does, with names and defaults
// of its own: its settings under verl's. Sources: NovaSky-AI/SkyRL of 2026 (skyrl/train/config/
// config.py, megatron_config/policy.yaml, skyrl/backends/skyrl_train/distributed/fsdp_strategy.py:
// weights rest in fp32, reductions are in fp32), and its skyrl_train of 2025
// (ppo_base_config.yaml).
#include <algorithm>
#include <string_view>
#include <utility>

#include "planner/launch/trainers/trainer.h"
#include "planner/launch/trainers/verl.h"

namespace trireme::planner {
namespace {

constexpr std::string_view kSkyMegatron = "trainer.policy.megatron_config.";
constexpr std::string_view kVerlsMegatron = "actor_rollout_ref.actor.megatron.";

constexpr std::pair<std::string_view, std::string_view> kSkyNames[] = {
    {"trainer.policy.model.path", "actor_rollout_ref.model.path"},
    {"trainer.policy.model.lora.rank", "actor_rollout_ref.model.lora_rank"},
    {"trainer.policy.model.lora.target_modules", "actor_rollout_ref.model.target_modules"},
    {"trainer.gradient_checkpointing", "actor_rollout_ref.model.enable_gradient_checkpointing"},
    {"trainer.policy_mini_batch_size", "actor_rollout_ref.actor.ppo_mini_batch_size"},
    {"trainer.micro_train_batch_size_per_gpu",
     "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"},
    {"trainer.update_epochs_per_batch", "actor_rollout_ref.actor.ppo_epochs"},
    {"trainer.policy.sequence_parallel_size",
     "actor_rollout_ref.actor.ulysses_sequence_parallel_size"},
    {"trainer.strategy", "actor_rollout_ref.actor.strategy"},
    {"trainer.policy.fsdp_config.fsdp_size", "actor_rollout_ref.actor.fsdp_config.fsdp_size"},
    {"trainer.policy.fsdp_config.reshard_after_forward",
     "actor_rollout_ref.actor.fsdp_config.reshard_after_forward"},
    {"trainer.policy.fsdp_config.cpu_offload",
     "actor_rollout_ref.actor.fsdp_config.offload_policy"},
    {"trainer.policy.optimizer_config.offload_after_step",
     "actor_rollout_ref.actor.fsdp_config.optimizer_offload"},
    {"trainer.algorithm.use_kl_loss", "actor_rollout_ref.actor.use_kl_loss"},
    {"trainer.algorithm.use_kl_in_reward", "algorithm.use_kl_in_reward"},
    {"trainer.algorithm.advantage_estimator", "algorithm.adv_estimator"},
    {"trainer.placement.policy_num_nodes", "trainer.nnodes"},
    {"trainer.placement.policy_num_gpus_per_node", "trainer.n_gpus_per_node"},
    {"trainer.placement.colocate_all", "actor_rollout_ref.hybrid_engine"},
    {"trainer.train_batch_size", "data.train_batch_size"},
    {"trainer.max_prompt_length", "data.max_prompt_length"},
    {"generator.sampling_params.max_generate_length", "data.max_response_length"},
    {"generator.n_samples_per_prompt", "actor_rollout_ref.rollout.n"}};

// Inside megatron_config, what is handed on to Megatron-Core's own configurations.
constexpr std::pair<std::string_view, std::string_view> kSkyHanded[] = {
    {"transformer_config_kwargs.", "override_transformer_config."},
    {"optimizer_config_kwargs.", "override_optimizer_config."},
    {"ddp_config.", "override_ddp_config."}};

// Where verl has another default, or none. A colocated reference model waits on the host.
constexpr std::pair<std::string_view, std::string_view> kSkyDefaults[] = {
    {"trainer.strategy", "fsdp2"},
    {"trainer.placement.policy_num_gpus_per_node", "4"},
    {"trainer.micro_train_batch_size_per_gpu", "1"},
    {"trainer.algorithm.advantage_estimator", "grpo"},
    {"generator.sampling_params.max_generate_length", "1024"},
    {"generator.n_samples_per_prompt", "5"},
    {"actor_rollout_ref.ref.megatron.param_offload", "true"}};
constexpr std::pair<std::string_view, std::string_view> kSkyMegatronDefaults[] = {
    {"transformer_config_kwargs.recompute_granularity", "full"},
    {"transformer_config_kwargs.recompute_method", "uniform"},
    {"transformer_config_kwargs.recompute_num_layers", "1"}};

LaunchSetting sky_setting(std::string_view key, std::string_view value) {
  return {std::string(key), std::string(value), std::string(key), 0};
}

std::string sky_megatron_name(std::string_view key) {
  key.remove_prefix(kSkyMegatron.size());
  for (const auto& [from, to] : kSkyHanded) {
    if (key.starts_with(from)) {
      return std::string(kVerlsMegatron) + std::string(to) + std::string(key.substr(from.size()));
    }
  }
  return std::string(kVerlsMegatron) + std::string(key);
}

}  // namespace

bool is_skyrl(const LaunchConfig& said) {
  return std::ranges::any_of(said.settings, [](const LaunchSetting& each) {
    return each.key.starts_with("trainer.policy.") || each.key.starts_with("trainer.placement.");
  });
}

void rename_skyrl(bool of_2025, LaunchConfig& said) {
  std::vector<LaunchSetting> first;
  for (const auto& [key, value] : kSkyDefaults) {
    first.push_back(sky_setting(key, value));
  }
  if (run_text(said, "trainer.strategy") == "megatron") {
    for (const auto& [key, value] : kSkyMegatronDefaults) {
      first.push_back(sky_setting(std::string(kSkyMegatron) + std::string(key), value));
    }
  }
  said.settings.insert(said.settings.begin(), first.begin(), first.end());
  for (LaunchSetting& setting : said.settings) {
    // Since 2026 its only FSDP is PyTorch's second, under the name of the first.
    if (setting.key == "trainer.strategy" && setting.value == "fsdp" && !of_2025) {
      setting.value = "fsdp2";
    }
    const auto* name =
        std::ranges::find(kSkyNames, setting.key, [](const auto& each) { return each.first; });
    if (name != std::end(kSkyNames)) {
      setting.key = name->second;
    } else if (setting.key.starts_with(kSkyMegatron)) {
      setting.key = sky_megatron_name(setting.key);
    }
  }
}

}  // namespace trireme::planner
