// Keys of a run of transformers' Trainer: those of the command line beside it, and those that are a
// slip of one that decides memory or time; and another syntax's keys under their first names.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/edits.h"
#include "core/error.h"
#include "planner/launch/field_table.h"
#include "planner/launch/launch_command.h"
#include "planner/launch/trainers/trainer.h"

namespace trireme::planner {
namespace {

// A slip of one of these would be passed over here, and another job be judged.
constexpr std::string_view kDecisive =
    "model_name_or_path base_model cutoff_len sequence_len model_max_length max_seq_length "
    "max_length per_device_train_batch_size micro_batch_size gradient_accumulation_steps "
    "gradient_checkpointing disable_gradient_checkpointing deepspeed fsdp_config fsdp_version bf16 "
    "fp16 pure_bf16 torch_dtype finetuning_type tuner_type train_type adapter lora_rank lora_r "
    "lora_target lora_target_modules lora_target_linear target_modules use_peft use_lora "
    "quantization_bit quant_bits quantization_method quant_method load_in_8bit load_in_4bit "
    "double_quantization packing sample_packing pad_to_sequence_len optim optimizer rlhf_type "
    "tensor_parallel_size context_parallel_size expert_parallel_size sequence_parallel_size "
    "enable_liger_kernel use_liger_kernel liger_fused_linear_cross_entropy flash_attn attn_impl "
    "attn_implementation";
// Names of the programs' own that are near to one of those (LLaMA-Factory hparams/*.py, axolotl
// utils/schemas, ms-swift swift/arguments, TRL trainer/*_config.py, summer 2026).
constexpr std::string_view kOtherKeys =
    "adapters galore_target_modules local_rank vera_rank max_new_length eval_packing optim_args "
    "micro_batch_sizes use_mora use_dora use_eaft use_qlora";

bool is_deepspeeds(std::string_view key) {
  constexpr std::string_view kNames =
      "train_batch_size train_micro_batch_size_per_gpu gradient_clipping zero_allow_untested_"
      "optimizer communication_data_type prescale_gradients";
  return (key.find('.') != std::string_view::npos && !key.starts_with("fsdp_config.")) ||
         is_among(kNames, key);
}

bool is_override(std::string_view word) {
  return word.starts_with("--") || word.find('=') != std::string_view::npos;
}

}  // namespace

TrainerArguments trainer_arguments(const std::vector<std::string>& arguments,
                                   std::string_view script) {
  TrainerArguments found;
  std::vector<std::string> rest = arguments;
  if (!script.empty()) {
    found.words = take_script_words(script, rest, is_override);
  }
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const bool flag = rest[i].starts_with("--");
    std::string text = flag ? rest[i].substr(2) : rest[i];
    const bool alone = flag && text.find('=') == std::string::npos;
    if (alone) {
      text += '=';
      if (i + 1 < rest.size() && !rest[i + 1].starts_with("--")) {
        text += rest[++i];
      }
    }
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) {
      found.other = rest[i];
      break;
    }
    if (is_deepspeeds(text.substr(0, equals))) {
      found.deepspeed.push_back(text);
    } else {
      found.run.push_back(
          {key_of(text.substr(0, equals)), text.substr(equals + 1), text.substr(0, equals), 0});
    }
  }
  return found;
}

void note_slips(LaunchConfig& run) {
  const std::vector<std::string_view> decisive = names_in(kDecisive);
  for (LaunchSetting& setting : run.settings) {
    if (is_among(kDecisive, setting.key) || is_among(kOtherKeys, setting.key)) {
      continue;
    }
    const auto meant = std::ranges::find_if(
        decisive, [&](std::string_view right) { return is_a_slip(setting.key, right); });
    setting.meant = meant == decisive.end() ? "" : std::string(*meant);
  }
}

void refuse_slips(const LaunchConfig& said, std::string_view known, std::string_view others,
                  std::string_view what) {
  const std::vector<std::string_view> names = names_in(known);
  for (const LaunchSetting& setting : said.settings) {
    if (is_among(known, setting.key) || is_among(others, setting.key)) {
      continue;
    }
    const auto meant = std::ranges::find_if(
        names, [&](std::string_view right) { return is_a_slip(setting.key, right); });
    if (meant != names.end()) {
      const std::string dashes(setting.spelled.starts_with("--") ? "--" : "");
      throw Error(where_of(said, setting), fmt::format("{} is no {}; {}{} would be right",
                                                       setting.spelled, what, dashes, *meant));
    }
  }
}

std::vector<std::string_view> parts_outside_braces(std::string_view list) {
  std::vector<std::string_view> parts;
  const auto add = [&](std::string_view part) {
    const std::size_t first = std::min(part.find_first_not_of(' '), part.size());
    parts.push_back(part.substr(first, part.find_last_not_of(' ') + 1 - first));
  };
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < list.size(); ++at) {
    const char c = list[at];
    depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    if (c == ',' && depth <= 0) {
      add(list.substr(begin, at - begin));
      begin = at + 1;
    }
  }
  add(list.substr(begin));
  return parts;
}

const LaunchSetting* ulysses_ranks(const TrainerRun& run) {
  if (run.program == TrainerProgram::kSwift) {
    return run_setting(run.said, "sequence_parallel_size");
  }
  const LaunchSetting* ranks = run_setting(run.said, "context_parallel_size");
  const bool second = ranks != nullptr && ranks->spelled == "cp_size";
  return second && run.program == TrainerProgram::kFactory &&
                 run_text(run.said, "cp_mode", "ulysses") == "ulysses"
             ? ranks
             : nullptr;
}

// ---- LLaMA-Factory's second syntax (src/llamafactory/v1/config/*_args.py, summer 2026): its names
// and defaults as those of the first, which everything behind reads.

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
