// Programs around Megatron-LM: what they call differently and set themselves (ms-swift
// 3602360a, swift/megatron/arguments; Megatron-DeepSpeed 4efb479d, megatron/arguments.py).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "core/error.h"
#include "models/model_names.h"
#include "planner/launch/launch_command.h"
#include "planner/launch/megatron/megatron.h"
#include "planner/launch/preference.h"

namespace trireme::planner {
namespace {

std::optional<std::int64_t> count_in(const LaunchConfig& config, std::string_view variable) {
  const LaunchSetting* found = find_variable(config, variable);
  if (found == nullptr) {
    return {};
  }
  std::int64_t value = 0;
  const char* end = found->value.data() + found->value.size();
  const auto [stop, failure] = std::from_chars(found->value.data(), end, value);
  const bool good = failure == std::errc() && stop == end && value >= 1 && value <= 1'000'000;
  return good ? std::optional(value) : std::nullopt;
}

void forget_unknown(LaunchConfig& config, std::string_view names) {
  std::erase_if(config.unknown,
                [&](const LaunchSetting& setting) { return is_among(names, setting.key); });
}

// What a program calls differently, unless Megatron-LM's own name is there too.
void rename(LaunchConfig& config, std::string_view from, std::string_view to) {
  const LaunchSetting* found = find_setting(config, from);
  if (found != nullptr && !has_setting(config, to)) {
    LaunchSetting setting = *found;
    setting.key = to;
    config.settings.push_back(std::move(setting));
  }
  forget_unknown(config, from);
}

// megatron sft …: NPROC_PER_NODE processes on each of NNODES hosts; samples are cut at
// --max_length; the model is a Hugging Face folder.
void read_swift(const LaunchCommand& command, LaunchConfig& config) {
  config.program = MegatronProgram::kSwift;
  // its flags before the first of Megatron-LM's look like the launcher's
  const std::vector<LaunchSetting> own = flags_of(command.launcher);
  config.settings.insert(config.settings.begin(), own.begin(), own.end());
  for (const auto& [key, value] : {std::pair{"use_distributed_optimizer", ""},
                                   {"recompute_granularity", "selective"},
                                   {"expert_tensor_parallel_size", "1"},
                                   {"cross_entropy_loss_fusion", ""},
                                   {"global_batch_size", "16"},
                                   {"micro_batch_size", "1"}}) {
    set_default(config, key, value);
  }
  if (text_setting(config, "recompute_granularity") == "none") {
    std::erase_if(config.settings, [](const auto& s) { return s.key == "recompute_granularity"; });
  }
  if (find_variable(config, "CUDA_DEVICE_MAX_CONNECTIONS") == nullptr) {
    config.environment.push_back({"CUDA_DEVICE_MAX_CONNECTIONS", "1", "megatron sft"});
  }
  if (const auto each = count_in(config, "NPROC_PER_NODE"); each && !config.gpus) {
    config.gpus_per_node = each;
    config.gpus = *each * count_in(config, "NNODES").value_or(1);
  }
  rename(config, "max_length", "seq_length");
  for (const char* key : {"model", "load", "mcore_model", "hf_checkpoint"}) {
    if (config.model_name.empty()) {
      config.model_name = models::preset_in(text_setting(config, key));
      config.model_said = text_setting(config, key, config.model_said);
    }
  }
  if (!is_on(config, "packing")) {
    note_unpacked(config);
  }
  const std::string tuner =
      text_setting(config, "tuner_type", text_setting(config, "train_type", "full"));
  if (tuner.starts_with("lora")) {
    config.training.rank = integer_setting(config, "lora_rank", 1, 100'000).value_or(8);
    config.training.adapter_dropout = number_setting(config, "lora_dropout").value_or(0.05);
  }
  const auto starts = [&](std::string_view word) {
    return std::any_of(command.launcher.begin(), command.launcher.end(),
                       [&](const ShellText& text) { return text.text == word; });
  };
  if (starts("rlhf")) {
    read_method(text_setting(config, "rlhf_type", "dpo"), "--rlhf_type", config, config);
  }
  forget_unknown(
      config,
      "model load mcore_model tuner_type train_type lora_rank lora_alpha lora_dropout packing "
      "rlhf_type");
}

// Experts stand in every --expert-interval-th layer; --num-experts 1 is a dense model.
void read_experts(LaunchConfig& config) {
  const LaunchSetting* experts = find_setting(config, "num_experts");
  if (experts == nullptr) {
    return;
  }
  if (experts->value.find(' ') != std::string::npos) {
    throw Error(where_of(config, *experts),
                fmt::format("{} gives a number of experts for each layer ({}), which this program "
                            "does not describe; one number would be right",
                            experts->spelled, experts->value));
  }
  if (experts->value == "1") {
    std::erase_if(config.settings, [](const auto& s) { return s.key == "num_experts"; });
    return;
  }
  set_default(config, "moe_router_topk", "1");
  const std::int64_t every = integer_setting(config, "expert_interval", 1, 1000).value_or(2);
  const std::int64_t layers = integer_setting(config, "num_layers", 1, 100'000).value_or(1);
  if (every > 1 && layers % every == 0) {
    set_default(config, "moe_layer_freq",
                fmt::format("([0]*{}+[1])*{}", every - 1, layers / every));
  }
}

void read_megatron_deepspeed(LaunchConfig& config) {
  config.program = MegatronProgram::kDeepspeed;
  rename(config, "num_key_value_heads", "num_query_groups");
  rename(config, "moe_expert_parallel_size", "expert_model_parallel_size");
  rename(config, "topk", "moe_router_topk");
  for (const char* attention : {"use_flash_attn_v1", "use_flash_attn_v2", "use_flash_attn_triton",
                                "use_flash_attn_builder"}) {
    rename(config, attention, "use_flash_attn");
  }
  if (has_setting(config, "ds_sequence_parallel_size")) {
    rename(config, "ds_sequence_parallel_size", "context_parallel_size");
    config.choices.emplace_back("context_all_to_all=true");  // Ulysses
  }
  read_experts(config);
  forget_unknown(config,
                 "expert_interval moe_loss_coeff moe_train_capacity_factor "
                 "moe_eval_capacity_factor moe_min_capacity");
}

// What a program does that trains nothing, by a word of its name (Megatron-LM's tools/, examples/
// and tasks/; programs of others are called alike).
constexpr std::pair<std::string_view, std::string_view> kOtherWork[] = {
    {"server", "serves a model"},
    {"serve", "serves a model"},
    {"serving", "serves a model"},
    {"ptq", "quantises a model"},
    {"quantize", "quantises a model"},
    {"quantization", "quantises a model"},
    {"inference", "generates text"},
    {"infer", "generates text"},
    {"generation", "generates text"},
    {"generate", "generates text"},
    {"chat", "generates text"},
    {"convert", "converts checkpoints"},
    {"converter", "converts checkpoints"},
    {"conversion", "converts checkpoints"},
    {"checkpoint", "converts checkpoints"},
    {"export", "converts checkpoints"},
    {"merge", "converts checkpoints"},
    {"preprocess", "prepares data"},
    {"tokenize", "prepares data"},
    {"prune", "prunes a model"},
    {"mmlu", "evaluates a model"},
    {"eval", "evaluates a model"},
    {"evaluate", "evaluates a model"},
    {"evaluation", "evaluates a model"}};
constexpr std::string_view kTrainingWords =
    "train pretrain training finetune finetuning tune tuning sft dpo grpo ppo rlhf distill";

// Words of the name of a program, module or subcommand: tools/run_text_generation_server.py is run,
// text, generation and server.
std::vector<std::string> words_of_program(std::string_view program) {
  std::string name(program.substr(program.rfind('/') + 1));
  name = name.ends_with(".py") ? name.substr(0, name.size() - 3) : name.substr(name.rfind('.') + 1);
  std::vector<std::string> words(1);
  for (const char c : name) {
    if (c == '_' || c == '-' || c == '.') {
      words.emplace_back();
    } else {
      words.back() += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  return words;
}

// tasks/main.py and tasks/msdp/main.py: which of them train is said by --task.
void refuse_evaluation(const LaunchConfig& config) {
  const std::string task = in_capitals(text_setting(config, "task"));
  if (task.starts_with("MSDP-") || is_among("LAMBADA WIKITEXT103", task) ||
      task.find("EVAL") != std::string::npos || task.find("ZEROSHOT") != std::string::npos) {
    throw Error(where_of(config, *find_setting(config, "task")),
                fmt::format("--task {} evaluates a model, and has neither gradients nor an "
                            "optimizer; a program that trains would be right",
                            task));
  }
}

// Megatron-LM's own programs that train something else than a decoder.
void refuse_other_models(const std::string& program, const LaunchConfig& config) {
  constexpr std::pair<std::string_view, std::string_view> kModels[] = {
      {"pretrain_t5", "an encoder and a decoder"},
      {"pretrain_ict", "two encoders"},
      {"pretrain_retro", "a decoder that retrieves"},
      {"pretrain_vision", "a model of images"},
      {"pretrain_mamba", "Mamba layers"},
      {"pretrain_hybrid", "Mamba layers"}};
  for (const auto& [name, what] : kModels) {
    if (program.starts_with(name)) {
      throw Error(config.source, fmt::format("{}.py trains {}, which this program does not "
                                             "describe; a decoder-only transformer would be right",
                                             program, what));
    }
  }
}

// python -m PACKAGE.MODULE
bool is_module(const std::vector<ShellText>& launcher) {
  return launcher.size() > 1 && launcher[launcher.size() - 2].text == "-m";
}

}  // namespace

void refuse_other_work(std::string_view program, const LaunchConfig& config) {
  const std::vector<std::string> words = words_of_program(program);
  const auto trains = [](const std::string& word) { return is_among(kTrainingWords, word); };
  if (std::any_of(words.begin(), words.end(), trains)) {
    return;
  }
  for (const auto& [word, work] : kOtherWork) {
    if (std::find(words.begin(), words.end(), word) != words.end()) {
      throw Error(config.source,
                  fmt::format("{} {}, and has neither gradients nor an optimizer; a program that "
                              "trains, as pretrain_gpt.py does, would be right",
                              program, work));
    }
  }
}

void set_default(LaunchConfig& config, std::string_view key, std::string_view value) {
  if (!has_setting(config, key)) {
    config.settings.insert(config.settings.begin(),
                           {std::string(key), std::string(value), "--" + std::string(key)});
  }
}

bool is_older_megatron(const LaunchConfig& config) {
  return config.program == MegatronProgram::kDeepspeed || has_setting(config, "DDP_impl") ||
         has_setting(config, "checkpoint_activations");
}

void read_megatron_program(const LaunchCommand& command, LaunchConfig& config) {
  std::string task;  // megatron sft
  for (std::size_t i = 0; i + 1 < command.launcher.size(); ++i) {
    const std::string& word = command.launcher[i].text;
    const std::string& next = command.launcher[i + 1].text;
    if (word.ends_with("swift") ||
        ((word == "megatron" || word.ends_with("/megatron")) && !next.starts_with("-"))) {
      task = task.empty() ? next : task;
    }
  }
  const bool swift = !task.empty();
  const bool slime =
      std::any_of(config.settings.begin(), config.settings.end(), [](const LaunchSetting& setting) {
        return setting.key.starts_with("rollout_") || setting.key.starts_with("actor_num_");
      });
  const std::string last = command.launcher.empty() ? "" : command.launcher.back().text;
  const std::string program = std::filesystem::path(last).stem().string();
  if (swift) {
    read_swift(command, config);
  } else if (slime) {
    read_slime(config);
  } else if (has_setting(config, "deepspeed")) {
    read_megatron_deepspeed(config);
  } else if (last.ends_with(".py") && !program.starts_with("pretrain_")) {
    config.program = MegatronProgram::kOther;
  }
  const std::string spec = text_setting(config, "spec");
  if (!spec.empty() && spec != "local" && !spec.starts_with("megatron.core.models.gpt")) {
    config.unmodelled.push_back("--spec " + spec);
    config.remarks.push_back(
        fmt::format("--spec {}: layers of the program's own; Megatron-LM's are taken", spec));
  }
  refuse_other_models(program, config);
  if (swift || last.ends_with(".py") || is_module(command.launcher)) {
    refuse_other_work(swift ? task : last, config);
  }
  refuse_evaluation(config);
  if (program.starts_with("pretrain_bert")) {
    config.remarks.emplace_back("BERT's attention sees both sides; it is counted as causal here");
  }
}

}  // namespace trireme::planner
