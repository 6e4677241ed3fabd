// EasyR1, a fork of verl with names of its own: its settings under verl's, with its defaults.
// Sources: EasyR1 of July 2026 (verl/trainer/config.py, verl/workers/actor/config.py,
// verl/workers/fsdp_workers.py, verl/workers/actor/dp_actor.py, examples/config.yaml).
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planner/launch/trainers/trainer.h"
#include "planner/launch/trainers/verl.h"

namespace trireme::planner {
namespace {

constexpr std::pair<std::string_view, std::string_view> kEasyNames[] = {
    {"worker.actor.model.model_path", "actor_rollout_ref.model.path"},
    {"worker.actor.model.enable_gradient_checkpointing",
     "actor_rollout_ref.model.enable_gradient_checkpointing"},
    {"worker.actor.model.lora.rank", "actor_rollout_ref.model.lora_rank"},
    {"worker.actor.model.lora.target_modules", "actor_rollout_ref.model.target_modules"},
    {"worker.actor.global_batch_size", "actor_rollout_ref.actor.ppo_mini_batch_size"},
    {"worker.actor.micro_batch_size_per_device_for_update",
     "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"},
    {"worker.actor.ulysses_size", "actor_rollout_ref.actor.ulysses_sequence_parallel_size"},
    {"worker.actor.ppo_epochs", "actor_rollout_ref.actor.ppo_epochs"},
    {"worker.actor.strategy", "actor_rollout_ref.actor.strategy"},
    {"worker.actor.dynamic_batching", "actor_rollout_ref.actor.use_dynamic_bsz"},
    {"worker.actor.optim.strategy", "actor_rollout_ref.actor.optim.optimizer"},
    {"worker.actor.fsdp.fsdp_size", "actor_rollout_ref.actor.fsdp_config.fsdp_size"},
    {"worker.actor.fsdp.torch_dtype", "actor_rollout_ref.actor.fsdp_config.model_dtype"},
    {"worker.actor.fsdp.mp_param_dtype", "actor_rollout_ref.actor.fsdp_config.dtype"},
    {"worker.actor.fsdp.enable_full_shard",
     "actor_rollout_ref.actor.fsdp_config.reshard_after_forward"},
    {"worker.actor.fsdp.enable_cpu_offload", "actor_rollout_ref.actor.fsdp_config.offload_policy"},
    {"worker.actor.offload.offload_params", "actor_rollout_ref.actor.fsdp_config.param_offload"},
    {"worker.actor.offload.offload_optimizer",
     "actor_rollout_ref.actor.fsdp_config.optimizer_offload"},
    {"worker.critic.offload.offload_params", "critic.fsdp.param_offload"},
    {"worker.critic.offload.offload_optimizer", "critic.fsdp.optimizer_offload"},
    {"worker.rollout.n", "actor_rollout_ref.rollout.n"},
    {"worker.hybrid_engine", "actor_rollout_ref.hybrid_engine"},
    {"data.rollout_batch_size", "data.train_batch_size"}};
// Where verl has another default, or none.
constexpr std::pair<std::string_view, std::string_view> kEasyDefaults[] = {
    {"worker.actor.micro_batch_size_per_device_for_update", "4"},
    {"worker.actor.dynamic_batching", "true"},
    {"data.rollout_batch_size", "512"},
    {"algorithm.adv_estimator", "grpo"}};
// examples/config.yaml, which its commands name: what decides memory or time in it and is no
// default.
constexpr std::pair<std::string_view, std::string_view> kEasyExample[] = {
    {"data.max_prompt_length", "2048"},
    {"data.max_response_length", "2048"},
    {"worker.actor.global_batch_size", "128"},
    {"worker.actor.micro_batch_size_per_device_for_update", "1"},
    {"worker.actor.model.model_path", "Qwen/Qwen2.5-7B-Instruct"},
    {"worker.actor.offload.offload_params", "true"},
    {"worker.actor.offload.offload_optimizer", "true"},
    {"worker.rollout.n", "5"}};

template <std::size_t Count>
void put_below(const std::pair<std::string_view, std::string_view> (&rows)[Count],
               LaunchConfig& said) {
  std::vector<LaunchSetting> first;
  for (const auto& [key, value] : rows) {
    first.push_back({std::string(key), std::string(value), std::string(key), 0});
  }
  said.settings.insert(said.settings.begin(), first.begin(), first.end());
}

// config=FILE: the settings below the command's own.
void read_file_of_run(const LaunchReading& reading, LaunchConfig& said) {
  const std::string file = run_text(said, "config");
  if (file.empty()) {
    return;
  }
  if (const auto text = reading.read ? reading.read(file) : std::nullopt) {
    put_file_below(file, *text, said);
  } else if (file.ends_with("examples/config.yaml")) {
    put_below(kEasyExample, said);
    said.remarks.push_back(
        fmt::format("{} is not there: EasyR1's own of July 2026 is taken", file));
  } else {
    said.foreign.push_back(fmt::format("what its config {} sets", file));
  }
}

// dp_actor.py: with dynamic batching a pack has the tokens of so many samples of the full length,
// over all ranks of Ulysses.
void put_tokens(LaunchConfig& said) {
  const auto count = [&](std::string_view key, std::int64_t otherwise) {
    return run_count(said, key, otherwise);
  };
  const std::int64_t longest =
      count("data.max_prompt_length", 512) + count("data.max_response_length", 512);
  const double tokens =
      static_cast<double>(longest) *
      static_cast<double>(count("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", 4)) /
      static_cast<double>(count("actor_rollout_ref.actor.ulysses_sequence_parallel_size", 1));
  constexpr double kMost = 1e8;
  put_setting(said, "actor_rollout_ref.actor.ppo_max_token_len_per_gpu",
              std::to_string(static_cast<std::int64_t>(std::clamp(tokens, 1.0, kMost))), nullptr);
}

}  // namespace

bool is_easyr1(const LaunchConfig& said) {
  return std::any_of(said.settings.begin(), said.settings.end(), [](const LaunchSetting& each) {
    return each.key.starts_with("worker.actor.") || each.key.starts_with("worker.rollout.");
  });
}

void rename_easyr1(const LaunchReading& reading, LaunchConfig& said) {
  read_file_of_run(reading, said);
  put_below(kEasyDefaults, said);
  for (LaunchSetting& setting : said.settings) {
    const auto* name = std::find_if(std::begin(kEasyNames), std::end(kEasyNames),
                                    [&](const auto& each) { return each.first == setting.key; });
    if (name != std::end(kEasyNames)) {
      setting.key = name->second;
    }
  }
  put_tokens(said);
  if (run_text(said, "actor_rollout_ref.actor.optim.optimizer") == "adamw_bf16") {
    said.unmodelled.emplace_back("the compensation that adamw_bf16 keeps");
  }
}

}  // namespace trireme::planner
