// What a run of verl says: overrides of its configuration in a command (Hydra's KEY=VALUE), or
// YAML.
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "planner/launch/field_table.h"
#include "planner/launch/launch_command.h"
#include "planner/launch/megatron/megatron.h"
#include "planner/launch/trainers/trainer.h"
#include "planner/launch/trainers/verl.h"

namespace trireme::planner {
namespace {

// ---- the words of a command

constexpr std::string_view kSections =
    "actor_rollout_ref algorithm async_training checkpoint critic custom_reward_function data "
    "distillation engine generator global_profiler model model_engine optim profiler ray_kwargs "
    "ref reward "
    "reward_model rollout trainer transfer_queue worker";

// Hydra's KEY=VALUE, +KEY=VALUE and ++KEY=VALUE; nothing where the word is none of verl's.
std::optional<LaunchSetting> override_of(std::string_view word, int line) {
  const std::size_t equals = word.find('=');
  const std::size_t begin = std::min(word.find_first_not_of('+'), word.size());
  if (equals == std::string_view::npos || equals <= begin) {
    return {};
  }
  const std::string key(word.substr(begin, equals - begin));
  const std::size_t dot = key.find('.');
  const bool group =
      is_among("config engine model_engine optim ulysses_sequence_parallel_size", key);
  if (!group && (dot == std::string::npos || !is_among(kSections, key.substr(0, dot)))) {
    return {};
  }
  return LaunchSetting{key, std::string(word.substr(equals + 1)),
                       std::string(word.substr(0, equals)), line};
}

bool is_verl_override(std::string_view word) {
  return override_of(word, 0).has_value();
}

// What a variable that the script does not set would decide, and what stands for it in the command
// of `check`.
std::string_view decided_by(const LaunchSetting& setting) {
  constexpr std::string_view kOwners[] = {"actor_rollout_ref.actor.", "data.", "engine.", "model."};
  constexpr std::string_view kBatch =
      "ppo_micro_batch_size_per_gpu ppo_micro_batch_size micro_batch_size_per_gpu";
  constexpr std::string_view kOthers =
      "ppo_max_token_len_per_gpu max_token_len_per_gpu ulysses_sequence_parallel_size fsdp_size "
      "strategy tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size "
      "expert_model_parallel_size expert_tensor_parallel_size virtual_pipeline_model_parallel_size "
      "recompute_granularity recompute_num_layers";
  if (std::none_of(std::begin(kOwners), std::end(kOwners),
                   [&](std::string_view owner) { return setting.key.starts_with(owner); })) {
    return {};
  }
  const std::string_view last = std::string_view(setting.key).substr(setting.key.rfind('.') + 1);
  return is_among(kBatch, last)                                    ? "micro_batch_size"
         : is_among("ppo_mini_batch_size", last)                   ? "global_batch_size"
         : is_among("max_prompt_length max_response_length", last) ? "seq_length"
         : is_among(kOthers, last)                                 ? last
                                                                   : std::string_view();
}

bool needs_value(const LaunchSetting& setting) {
  return is_among("model.path model.partial_pretrain actor_rollout_ref.model.path", setting.key) ||
         !decided_by(setting).empty();
}

[[noreturn]] void refuse_without_value(const LaunchSetting& setting, const LaunchConfig& said) {
  throw Error(where_of(said, setting), fmt::format("{} has no value; {}=VALUE would be right",
                                                   setting.spelled, setting.spelled));
}

// Whether it is a variable, which the script does not set, that stands there.
bool is_variable(const LaunchSetting& setting, const ShellText& word, const ShellScript& script) {
  const std::vector<UnsetWord>& unset = script.variables.unset_words;
  return word.outside || word.lost || word.open_after ||
         std::any_of(unset.begin(), unset.end(),
                     [&](const UnsetWord& each) { return each.after == setting.spelled + "="; });
}

// KEY={a:1,b:{c:2}}, as Hydra takes maps: the settings that it holds.
void add_override(LaunchSetting setting, LaunchConfig& said) {
  constexpr int kDeepest = 20;
  const std::string_view map = setting.value;
  if (!map.starts_with('{') || !map.ends_with('}') ||
      std::ranges::count(setting.key, '.') > kDeepest) {
    said.settings.push_back(std::move(setting));
    return;
  }
  const auto bare = [](std::string_view text) {
    const std::size_t first = text.find_first_not_of(" '\"");
    const std::size_t last = text.find_last_not_of(" '\"");
    return first == std::string_view::npos ? std::string()
                                           : std::string(text.substr(first, last + 1 - first));
  };
  for (const std::string_view entry : parts_outside_braces(map.substr(1, map.size() - 2))) {
    const std::size_t colon = std::min(entry.find(':'), entry.size());
    if (const std::string key = bare(entry.substr(0, colon)); !key.empty()) {
      add_override({setting.key + "." + key, bare(entry.substr(std::min(colon + 1, entry.size()))),
                    setting.spelled + "." + key, setting.line},
                   said);
    }
  }
}

void read_words(const std::vector<ShellText>& words, const ShellScript& script, VerlRun& run) {
  for (const ShellText& word : words) {
    const int line = word.lines.empty() ? 0 : word.lines.front();
    std::optional<LaunchSetting> setting = override_of(word.text, line);
    if (!setting) {
      const LaunchSetting alone{word.text, "", word.text, line};
      if (needs_value(alone)) {
        refuse_without_value(alone, run.said);
      }
      continue;
    }
    if (!setting->value.empty()) {
      add_override(std::move(*setting), run.said);
      continue;
    }
    run.open.push_back(setting->key);
    if (!is_variable(*setting, word, script) && needs_value(*setting)) {
      refuse_without_value(*setting, run.said);
    }
    if (const std::string_view decides = decided_by(*setting); !decides.empty()) {
      setting->key = decides;
      note_unset(script, *setting, run.said);
    }
  }
}

// --config-name and --config-path of the launcher's words: "" where it names none.
std::string hydra_flag(const std::vector<ShellText>& words, std::string_view name) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    if (word == name && i + 1 < words.size()) {
      return words[i + 1].text;
    }
    if (word.starts_with(name) && word.size() > name.size() && word[name.size()] == '=') {
      return word.substr(name.size() + 1);
    }
  }
  return {};
}

// ---- the run

std::string without_yaml(std::string name) {
  for (const std::string_view end : {".yaml", ".yml"}) {
    if (name.ends_with(end)) {
      name.resize(name.size() - end.size());
    }
  }
  return name;
}

// verl's own configurations hold the defaults that are known here; another one is read where it
// lies beside the script, and leaves the verdict open where it does not.
void read_base(const std::vector<ShellText>& words, const LaunchReading& reading, VerlRun& run) {
  const std::string name = without_yaml(hydra_flag(words, "--config-name"));
  run.base = name;
  if (name.empty() || name.starts_with("ppo_") || name.starts_with("sft_trainer")) {
    return;
  }
  const std::string folder = hydra_flag(words, "--config-path");
  const std::string file = (folder.empty() ? "config" : folder) + "/" + name + ".yaml";
  if (const auto text = reading.read ? reading.read(file) : std::nullopt) {
    put_file_below(file, *text, run.said);
  } else {
    run.said.foreign.push_back(fmt::format("what its --config-name {} sets", name));
  }
}

VerlRun run_of_script(std::string_view text, const std::string& source,
                      const std::vector<std::string>& arguments, const LaunchReading& reading) {
  VerlRun run;
  run.said.source = source;
  std::vector<std::string> overrides = arguments;
  const std::vector<std::string> words =
      take_script_words(text, overrides, [](std::string_view word) {
        return word.starts_with("-") || word.find('=') != std::string_view::npos;
      });
  const ShellScript script = read_launch_script(text, source, words, reading, run.said);
  const LaunchCommand command = started_command(script, is_verl_override, run.said);
  std::vector<ShellText> all = command.launcher;
  all.insert(all.end(), command.arguments.begin(), command.arguments.end());
  for (const ShellText& word : all) {
    if (word.text.starts_with("verl.") || word.text.ends_with(".py")) {
      refuse_other_work(word.text, run.said);
    }
  }
  read_words(all, script, run);
  read_base(all, reading, run);
  read_words(words_of(overrides), script, run);
  return run;
}

VerlRun run_of_yaml(std::string_view text, const std::string& source,
                    const std::vector<std::string>& arguments) {
  VerlRun run;
  run.said.source = source;
  read_yaml_settings(text, run.said);
  add_arguments(arguments, "actor_rollout_ref.actor.fsdp_config.fsdp_size=8", run.said);
  return run;
}

bool starts_sft(std::string_view text) {
  return text.find("verl.trainer.fsdp_sft_trainer") != std::string_view::npos ||
         text.find("verl.trainer.sft_trainer") != std::string_view::npos ||
         text.find("partial_pretrain") != std::string_view::npos;
}

// Keys with one value of which a map or a list stands there (YAML, Hydra), and switches that are
// none: what is read of them would be their defaults.
void hold_values(const LaunchConfig& said) {
  constexpr std::string_view kSingle =
      "ppo_mini_batch_size ppo_micro_batch_size_per_gpu ppo_micro_batch_size use_dynamic_bsz "
      "ppo_max_token_len_per_gpu max_token_len_per_gpu micro_batch_size_per_gpu train_batch_size "
      "max_prompt_length max_response_length max_length n_gpus_per_node nnodes fsdp_size strategy "
      "ulysses_sequence_parallel_size model_dtype partial_pretrain lora_rank "
      "tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size "
      "expert_model_parallel_size expert_tensor_parallel_size "
      "virtual_pipeline_model_parallel_size enable_gradient_checkpointing use_remove_padding";
  constexpr std::string_view kSwitches =
      "use_remove_padding use_dynamic_bsz enable_gradient_checkpointing param_offload "
      "optimizer_offload grad_offload use_fused_kernels enable_activation_offload "
      "reshard_after_forward offload_policy use_kl_loss use_liger sequence_parallel "
      "use_distributed_optimizer";
  for (const LaunchSetting& setting : said.settings) {
    std::vector<std::string_view> parts = split_at(setting.key, '.');
    const std::string_view last = parts.empty() ? std::string_view() : parts.back();
    if (is_among(kSwitches, last) && find_setting(said, setting.key) == &setting) {
      switch_setting(said, setting.key);
    }
    const std::size_t end = parts.empty() ? 0 : parts.size() - 1;
    for (std::size_t i = 0; i < end; ++i) {
      if (is_among(kSingle, parts[i])) {
        throw Error(where_of(said, setting), fmt::format("{} is a map, with {} in it; one value "
                                                         "would be right",
                                                         parts[i], last));
      }
    }
  }
}

}  // namespace

// The same of an engine, under the names that the actor, the SFT trainer and that of 2025 have.
const LaunchSetting* engine_setting(const VerlRun& run, const std::string& key) {
  const LaunchConfig& said = run.said;
  return run.rollouts ? run_setting(said, "actor_rollout_ref.actor.fsdp_config." + key +
                                              " actor_rollout_ref.actor.megatron." + key +
                                              " actor_rollout_ref.actor." + key)
                      : run_setting(said, "engine." + key + " model.fsdp_config." + key +
                                              " model." + key + " " + key);
}

const LaunchSetting* model_setting(const VerlRun& run, const std::string& key) {
  return run_setting(run.said, (run.rollouts ? "actor_rollout_ref.model." : "model.") + key);
}

bool says(const LaunchConfig& said, const LaunchSetting* setting, bool otherwise) {
  return setting == nullptr ? otherwise : is_on(said, setting->key);
}

std::int64_t count_of(const LaunchConfig& said, const LaunchSetting* setting,
                      std::int64_t otherwise) {
  return setting == nullptr
             ? otherwise
             : integer_setting(said, setting->key, 1, 100'000'000).value_or(otherwise);
}

std::string strategy_of(const VerlRun& run) {
  if (const LaunchSetting* strategy = engine_setting(run, "strategy")) {
    return strategy->value;
  }
  const std::string engine = run_text(run.said, "model_engine engine");
  if (!engine.empty()) {
    return engine == "dp" ? "fsdp" : engine;
  }
  return run.base.find("megatron") != std::string::npos ? "megatron" : "fsdp";
}

void put_file_below(const std::string& file, std::string_view text, LaunchConfig& said) {
  LaunchConfig inner;
  inner.source = file;
  read_yaml_settings(text, inner);
  for (LaunchSetting& setting : inner.settings) {
    setting.line = 0;  // of another file than `said` names
  }
  said.settings.insert(said.settings.begin(), inner.settings.begin(), inner.settings.end());
}

bool is_verl(std::string_view text, const std::string& source) {
  const bool actor = text.find(is_yaml(source) ? "actor_rollout_ref:" : "actor_rollout_ref.") !=
                     std::string_view::npos;
  const bool easy = text.find(is_yaml(source) ? "\nworker:\n  actor:" : "worker.actor.") !=
                    std::string_view::npos;
  const bool sky = text.find(is_yaml(source) ? "\n  policy_mini_batch_size:" : "trainer.policy.") !=
                   std::string_view::npos;
  const bool starts = actor || easy || sky || starts_sft(text) ||
                      text.find("verl.trainer.main_ppo") != std::string_view::npos;
  return !source.ends_with(".py") && !source.ends_with(".toml") && starts;
}

VerlRun read_verl_run(std::string_view text, const std::string& source,
                      const std::vector<std::string>& arguments, const LaunchReading& reading) {
  VerlRun run = is_yaml(source) ? run_of_yaml(text, source, arguments)
                                : run_of_script(text, source, arguments, reading);
  run.easy = is_easyr1(run.said);
  if (run.easy) {
    rename_easyr1(reading, run.said);
  }
  run.sky = is_skyrl(run.said);
  if (run.sky) {
    rename_skyrl(text.find("skyrl_train.") != std::string_view::npos, run.said);
  }
  settle_references(run.said);
  hold_values(run.said);
  if (run.said.settings.empty()) {
    throw Error(
        source,
        "starts nothing with verl's settings; a command such as python -m "
        "verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen3-8B … would be right");
  }
  run.rollouts = std::any_of(
      run.said.settings.begin(), run.said.settings.end(),
      [](const LaunchSetting& each) { return each.key.starts_with("actor_rollout_ref."); });
  run.older = run_setting(run.said, "model.partial_pretrain") != nullptr;
  return run;
}

}  // namespace trireme::planner
