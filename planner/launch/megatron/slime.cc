// slime and miles: reinforcement learning whose actor is trained by Megatron-LM (slime of summer
// 2026: utils/arguments.py, utils/dp_schedule.py; miles: utils/arguments.py, add_lora_arguments).
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "models/model_names.h"
#include "planner/launch/field_table.h"
#include "planner/launch/megatron/megatron.h"
#include "planner/launch/trainers/rollouts.h"
#include "planner/launch/trainers/trainer.h"

namespace trireme::planner {
namespace {

void replace_setting(LaunchConfig& config, std::string_view key, std::int64_t value) {
  std::erase_if(config.settings, [&](const LaunchSetting& setting) { return setting.key == key; });
  config.settings.push_back({std::string(key), std::to_string(value), "--" + std::string(key)});
}

// Samples of a step; that of a rollout over its steps where the file says no number of its own.
std::optional<std::int64_t> samples_a_step(const LaunchConfig& config) {
  const auto steps = integer_setting(config, "num_steps_per_rollout");
  const auto prompts = integer_setting(config, "rollout_batch_size");
  if (!steps || !prompts) {
    return integer_setting(config, "global_batch_size");
  }
  const std::int64_t each = integer_setting(config, "n_samples_per_prompt").value_or(1);
  return std::max<std::int64_t>(1, *prompts * each / *steps);
}

// The longest sample that rollouts make, as far as the file says.
std::optional<std::int64_t> longest_sample(const LaunchConfig& config) {
  const auto answer = integer_setting(config, "rollout_max_response_len");
  const auto all = integer_setting(config, "rollout_max_context_len");
  if (!answer) {
    return all;
  }
  const std::int64_t both = *answer + integer_setting(config, "rollout_max_prompt_len").value_or(0);
  return std::min(both, all.value_or(std::numeric_limits<std::int64_t>::max()));
}

// --use-dynamic-batch-size: packs of at most max_tokens_per_gpu tokens on each rank of cp.
void read_packs(LaunchConfig& config, std::int64_t tokens, std::optional<std::int64_t> samples) {
  const auto degree = [&](const char* key) {
    return integer_setting(config, key, 1, 1'000'000).value_or(1);
  };
  const std::int64_t ranks = config.gpus.value_or(1) / (degree("tensor_model_parallel_size") *
                                                        degree("pipeline_model_parallel_size") *
                                                        degree("context_parallel_size"));
  const RolloutPacks packs = packs_of({.step = samples,
                                       .longest = longest_sample(config),
                                       .ranks = ranks,
                                       .by = "--use-dynamic-batch-size",
                                       .limit = "--max-tokens-per-gpu"},
                                      tokens * degree("context_parallel_size"), config);
  replace_setting(config, "seq_length", packs.sequence);
  replace_setting(config, "micro_batch_size", 1);
  if (packs.batch) {
    replace_setting(config, "global_batch_size", *packs.batch);
  }
}

void read_samples(LaunchConfig& config) {
  const auto samples = samples_a_step(config);
  const auto tokens = is_on(config, "use_dynamic_batch_size")
                          ? integer_setting(config, "max_tokens_per_gpu", 1, 100'000'000)
                          : std::nullopt;
  if (tokens) {
    read_packs(config, *tokens, samples);
    return;
  }
  if (samples) {
    replace_setting(config, "global_batch_size", *samples);
  }
  if (const auto longest = longest_sample(config)) {
    replace_setting(config, "seq_length", *longest);
  }
  if (!has_setting(config, "micro_batch_size")) {
    replace_setting(config, "micro_batch_size", 1);
  }
  note_unpacked(config);
}

void read_actor_adapters(LaunchConfig& config) {
  Training& training = config.training;
  training.rank = integer_setting(config, "lora_rank", 0, 100'000).value_or(0);
  if (training.rank == 0) {
    return;
  }
  training.adapter_dropout = number_setting(config, "lora_dropout").value_or(0);
  take_targets("--target-modules", text_setting(config, "target_modules", "all-linear"), config);
}

}  // namespace

void read_slime(LaunchConfig& config) {
  config.program = MegatronProgram::kSlime;
  if (const auto each = integer_setting(config, "actor_num_gpus_per_node")) {
    config.gpus_per_node = each;
    config.gpus = integer_setting(config, "actor_num_nodes").value_or(1) * *each;
  }
  config.model_said = text_setting(config, "hf_checkpoint");
  config.model_name = models::preset_in(config.model_said);
  set_default(config, "use_distributed_optimizer", "");
  set_default(config, "tokenizer_model", config.model_said);
  read_samples(config);
  read_actor_adapters(config);
  note_actor(config);
  std::erase_if(config.unknown, [](const LaunchSetting& setting) {
    return is_among(
        "use_dynamic_batch_size max_tokens_per_gpu log_probs_max_tokens_per_gpu "
        "rollout_batch_size n_samples_per_prompt num_steps_per_rollout rollout_max_response_len "
        "rollout_max_prompt_len rollout_max_context_len over_sampling_batch_size lora_rank "
        "lora_alpha lora_dropout target_modules hf_checkpoint actor_num_nodes "
        "actor_num_gpus_per_node",
        setting.key);
  });
}

}  // namespace trireme::planner
