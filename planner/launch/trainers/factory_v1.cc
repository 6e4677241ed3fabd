// LLaMA-Factory's second syntax (src/llamafactory/v1/config/*_args.py, summer 2026): its names and
// defaults as those of the first, which everything behind reads.
#include <algorithm>
#include <utility>

#include "planner/launch/field_table.h"
#include "planner/launch/trainers/trainer.h"

namespace trireme::planner {
namespace {

constexpr std::pair<std::string_view, std::string_view> kFirstNames[] = {
    {"micro_batch_size", "per_device_train_batch_size"},
    {"peft_config.name", "finetuning_type"},
    {"peft_config.r", "lora_rank"},
    {"peft_config.lora_alpha", "lora_alpha"},
    {"peft_config.lora_dropout", "lora_dropout"},
    {"peft_config.target_modules", "lora_target"},
    {"quant_config.quantization_bit", "quantization_bit"},
    {"cp_size", "context_parallel_size"},
    {"dist_config.ep_size", "expert_parallel_size"},
    {"dist_config.config_file", "deepspeed"},
    {"optim_config.name", "optim"}};
constexpr std::pair<const char*, const char*> kSecondDefaults[] = {
    {"finetuning_type", "full"},
    {"per_device_train_batch_size", "1"},
    {"cutoff_len", "2048"},
    {"bf16", "true"},
    {"lora_rank", "8"}};

}  // namespace

void rename_factory_v1(LaunchConfig& said) {
  for (LaunchSetting& setting : said.settings) {
    const auto known = std::find_if(std::begin(kFirstNames), std::end(kFirstNames),
                                    [&](const auto& each) { return each.first == setting.key; });
    if (known != std::end(kFirstNames)) {
      setting.key = known->second;
    }
  }
  for (const auto& [key, value] : kSecondDefaults) {
    if (run_setting(said, key) == nullptr) {
      said.settings.push_back({key, value, key, 0});
    }
  }
  const auto add = [&](const char* key, const char* value, const LaunchSetting& from) {
    said.settings.push_back({key, value, from.spelled, from.line});
  };
  if (const LaunchSetting* kept = find_setting(said, "enable_activation_checkpointing")) {
    add("disable_gradient_checkpointing", is_on(said, kept->key) ? "false" : "true",
        LaunchSetting(*kept));
  }
  const LaunchSetting* shards = run_setting(said, "dist_config.name");
  if (shards == nullptr || shards->value == "deepspeed") {
    return;
  }
  if (shards->value == "fsdp2") {
    add("fsdp", "fsdp2", LaunchSetting(*shards));
  } else {
    said.foreign.push_back(shards->spelled + " " + shards->value);
  }
}

}  // namespace trireme::planner
