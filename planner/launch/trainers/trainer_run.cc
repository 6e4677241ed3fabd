// What a run of transformers' Trainer says, whoever wraps it: LLaMA-Factory's and axolotl's YAML,
// and command lines (theirs, ms-swift's, TRL's, of scripts of one's own).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/error.h"
#include "planner/launch/field_table.h"
#include "planner/launch/launch_command.h"
#include "planner/launch/preference.h"
#include "planner/launch/trainers/trainer.h"
#include "planner/launch/yaml_kinds.h"
#include "planner/shell/command_string.h"

namespace trireme::planner {
namespace {

constexpr std::string_view kFlags =
    "model_name_or_path base_model model model_name cutoff_len sequence_len model_max_length "
    "max_seq_length "
    "max_length max_seq_len block_size per_device_train_batch_size micro_batch_size deepspeed fsdp "
    "bf16 fp16 output_dir learning_rate gradient_accumulation_steps gradient_checkpointing "
    "num_train_epochs save_steps logging_steps tuner_type train_type finetuning_type lora_rank "
    "lora_r use_peft";

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// A key of the YAML's outermost map, or of a JSON.
bool has_key(std::string_view text, std::string_view key) {
  if (text.starts_with("{")) {
    return has(text, fmt::format("\"{}\":", key));
  }
  for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    const bool starts = at == 0 || text[at - 1] == '\n';
    if (starts && text.substr(at + key.size()).starts_with(":")) {
      return true;
    }
  }
  return false;
}

// The second syntax (src/llamafactory/v1): a model and its data, and parts that plug-ins read.
bool is_factory_v1(std::string_view text) {
  const auto has_one_of = [&](std::string_view names) {
    const std::vector<std::string_view> all = names_in(names);
    return std::any_of(all.begin(), all.end(), [&](auto key) { return has_key(text, key); });
  };
  return has_key(text, "model") && has_key(text, "train_dataset") &&
         has_one_of("dist_config peft_config kernel_config init_config model_class");
}

std::optional<TrainerProgram> program_of_settings(std::string_view text) {
  if (has_key(text, "finetuning_type") ||
      (has_key(text, "stage") && has_key(text, "model_name_or_path")) || is_factory_v1(text)) {
    return TrainerProgram::kFactory;
  }
  if (has_key(text, "base_model") &&
      (has_key(text, "sequence_len") || has_key(text, "micro_batch_size"))) {
    return TrainerProgram::kAxolotl;
  }
  if (is_swift_yaml(text) && !has_key(text, "model_name_or_path")) {
    return TrainerProgram::kSwift;
  }
  // recipes of TRL, of the alignment handbook and of scripts of one's own
  const bool recipe =
      has_key(text, "model_name_or_path") && (has_key(text, "per_device_train_batch_size") ||
                                              has_key(text, "gradient_accumulation_steps"));
  return recipe ? std::optional(TrainerProgram::kTransformers) : std::nullopt;
}

std::optional<TrainerProgram> program_of_script(std::string_view text) {
  for (const char* start :
       {"swift sft", "swift pt", "swift rlhf", "cli/sft.py", "cli/pt.py", "cli/rlhf.py"}) {
    if (has(text, start)) {
      return TrainerProgram::kSwift;
    }
  }
  if (has(text, "--finetuning_type")) {
    return TrainerProgram::kFactory;
  }
  return has(text, "--per_device_train_batch_size") ? std::optional(TrainerProgram::kTransformers)
                                                    : std::nullopt;
}

bool is_trainer_flag(std::string_view word) {
  std::string key(word.substr(std::min<std::size_t>(2, word.size())));
  std::replace(key.begin(), key.end(), '-', '_');
  key.resize(std::min(key.find('='), key.size()));
  return word.starts_with("--") && is_among(kFlags, key);
}

std::optional<std::int64_t> positive_in(const LaunchConfig& run, std::string_view variable) {
  const LaunchSetting* found = find_variable(run, variable);
  std::int64_t value = 0;
  if (found == nullptr) {
    return {};
  }
  const std::string& text = found->value;
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = failure == std::errc() && value > 0 && stop == text.data() + text.size();
  return good ? std::optional(value) : std::nullopt;
}

// How many cards CUDA_VISIBLE_DEVICES names.
std::optional<std::int64_t> visible_cards(const LaunchConfig& run) {
  const LaunchSetting* found = find_variable(run, "CUDA_VISIBLE_DEVICES");
  return found == nullptr || found->value.empty()
             ? std::nullopt
             : std::optional(1 + std::count(found->value.begin(), found->value.end(), ','));
}

// ms-swift starts NPROC_PER_NODE processes, one unless told (swift/cli/main.py), LLaMA-Factory one
// on each card that is visible (launcher.py), python itself one.
void read_processes(const std::vector<ShellText>& launcher, TrainerRun& run) {
  LaunchConfig& said = run.said;
  read_gpu_count(launcher, said);
  const auto starts = [&](std::string_view word) {
    return std::any_of(launcher.begin(), launcher.end(), [&](const ShellText& text) {
      return text.text == word || text.text.ends_with("/" + std::string(word));
    });
  };
  const bool launched = starts("torchrun") || starts("accelerate") || starts("deepspeed") ||
                        starts("torch.distributed.run") || starts("torch.distributed.launch");
  if (said.gpus || launched) {
    return;
  }
  const auto each = positive_in(said, "NPROC_PER_NODE");
  const auto visible = visible_cards(said);
  if (run.program == TrainerProgram::kSwift) {
    said.gpus = each.value_or(1) * positive_in(said, "NNODES").value_or(1);
    if (!each && visible.value_or(1) > 1) {
      said.foreign.emplace_back("one process over several cards (device_map)");
    }
  } else if (run.program == TrainerProgram::kFactory) {
    said.gpus = visible;
  } else if (starts("python") || starts("python3")) {
    said.gpus = 1;
  }
  said.gpus_per_node = each;
}

std::string accelerate_file(const std::vector<ShellText>& launcher) {
  for (std::size_t i = 0; i + 1 < launcher.size(); ++i) {
    if (launcher[i].text == "--config_file") {
      return launcher[i + 1].text;
    }
  }
  return {};
}

// Flags between accelerate launch and the program that it starts.
std::vector<LaunchSetting> accelerate_flags(const std::vector<ShellText>& launcher) {
  const auto starts = std::find_if(launcher.begin(), launcher.end(), [](const ShellText& word) {
    return word.text == "accelerate" || word.text.ends_with("/accelerate");
  });
  return launcher_flags({starts, launcher.end()}).settings;
}

// trl dpo …, python examples/scripts/dpo.py …; nothing where no program's name has one.
std::string method_of_launcher(const std::vector<ShellText>& launcher) {
  for (std::size_t i = 0; i < launcher.size(); ++i) {
    const std::string& word = launcher[i].text;
    if (word.ends_with(".py") || (i > 0 && launcher[i - 1].text.ends_with("trl"))) {
      return method_of_program(word);
    }
  }
  return {};
}

// LLaMA-Factory's Megatron back ends (USE_MCA, src/llamafactory/train/megatron_bridge): read as
// transformers' it would be another job.
void refuse_megatron(const TrainerRun& run) {
  for (const char* key : {"tensor_model_parallel_size", "pipeline_model_parallel_size",
                          "expert_model_parallel_size"}) {
    if (const LaunchSetting* found = find_setting(run.said, key)) {
      throw Error(
          where_of(run.said, *found),
          fmt::format("{} is of the run's Megatron back end, which is not read in this file; "
                      "its settings as Megatron-LM's flags in a script "
                      "(--tensor-model-parallel-size 4, …) would be right",
                      found->spelled));
    }
  }
}

TrainerRun run_of_settings(std::string_view text, const std::string& source) {
  TrainerRun run;
  run.program = *program_of_settings(text);
  run.said.source = source;
  if (is_yaml(source)) {
    read_yaml_settings(text, run.said);
  } else {
    read_json_settings(text, run.said);
  }
  refuse_megatron(run);
  if (is_factory_v1(text)) {
    rename_factory_v1(run.said);
  }
  for (const LaunchSetting& setting : run.said.settings) {
    if (setting.key.starts_with("ENV.")) {  // ms-swift's
      run.said.environment.push_back(
          {setting.key.substr(4), setting.value, setting.key, setting.line});
    }
  }
  return run;
}

void add_settings(const std::vector<LaunchSetting>& more, LaunchConfig& said) {
  said.settings.insert(said.settings.end(), more.begin(), more.end());
}

// What follows a YAML in the command that starts it: key=value (LLaMA-Factory), --key value.
std::vector<LaunchSetting> settings_after(const std::vector<ShellText>& words,
                                          const ShellText& file) {
  std::vector<std::string> rest;
  for (const ShellText* word = &file + 1; word != words.data() + words.size(); ++word) {
    const bool value = !rest.empty() && rest.back().starts_with("--");
    if (word->text.starts_with("--") || word->text.find('=') != std::string::npos || value) {
      rest.push_back(word->text);
    }
  }
  std::vector<LaunchSetting> settings = trainer_arguments(rest, "").run;
  for (LaunchSetting& setting : settings) {
    setting.line = file.lines.empty() ? 0 : file.lines.front();
  }
  return settings;
}

// A command that reads the file for itself: grep -q use_vllm X.yaml.
bool looks_only(const std::vector<ShellText>& words) {
  return !words.empty() &&
         is_among("[ [[ test grep sed awk cat head tail ls cp mv echo yq jq", words.front().text);
}

// llamafactory-cli train X.yaml, axolotl train X.yml, accelerate launch --config_file A.yaml …
// X.yaml: that file, with what the command says.
std::optional<TrainerRun> run_named(std::string_view script_text, const std::string& source,
                                    const TrainerArguments& arguments,
                                    const LaunchReading& reading) {
  LaunchConfig around;
  const ShellScript script =
      read_launch_script(script_text, source, arguments.words, reading, around);
  for (const ShellCommand& command : script.commands) {
    for (const std::vector<ShellText>& words : commands_of_words(command.words)) {
      if (looks_only(words)) {
        continue;
      }
      for (const ShellText& word : words) {
        const auto text =
            is_settings_file(word.text) && reading.read ? reading.read(word.text) : std::nullopt;
        if (text && is_trainer_file(*text, word.text)) {
          TrainerRun run = run_of_settings(*text, word.text);
          take_over(around, run.said);
          read_processes(words, run);
          run.accelerate = accelerate_file(words);
          run.launcher = accelerate_flags(words);
          run.method = method_of_launcher(words);
          add_settings(settings_after(words, word), run.said);
          return run;
        }
      }
    }
  }
  return {};
}

TrainerRun run_of_script(std::string_view text, const std::string& source,
                         const TrainerArguments& arguments, const LaunchReading& reading,
                         TrainerProgram program) {
  TrainerRun run;
  run.program = program;
  run.said.source = source;
  const ShellScript script = read_launch_script(text, source, arguments.words, reading, run.said);
  const LaunchCommand command = training_command(script, is_trainer_flag, run.said);
  remark_missing_arguments(
      script, [](std::string_view) { return false; }, run.said);
  read_command_environment(command.launcher, run.said);
  read_processes(command.launcher, run);
  // flags before the first that is known look like the launcher's, where it is no Python file
  const bool python = !command.launcher.empty() && command.launcher.back().text.ends_with(".py");
  run.said.settings = python ? std::vector<LaunchSetting>() : flags_of(command.launcher);
  const std::vector<LaunchSetting> flags = flags_of(command.arguments);
  run.said.settings.insert(run.said.settings.end(), flags.begin(), flags.end());
  run.accelerate = accelerate_file(command.launcher);
  run.launcher = accelerate_flags(command.launcher);
  run.method = method_of_launcher(command.launcher);
  return run;
}

std::optional<TrainerRun> run_of(std::string_view text, const std::string& source,
                                 const TrainerArguments& arguments, const LaunchReading& reading) {
  if (is_settings_file(source)) {
    return program_of_settings(text) ? std::optional(run_of_settings(text, source)) : std::nullopt;
  }
  for (const char* other : {".toml", ".py"}) {
    if (source.ends_with(other)) {
      return {};
    }
  }
  if (const auto program = program_of_script(text)) {
    return run_of_script(with_swift_yaml(text, reading), source, arguments, reading, *program);
  }
  if (has(text, ".yaml") || has(text, ".yml") || has(text, ".json")) {
    return run_named(text, source, arguments, reading);
  }
  return {};
}

}  // namespace

bool is_trainer_file(std::string_view text, const std::string& source) {
  return is_settings_file(source) && program_of_settings(text).has_value();
}

std::optional<TrainerRun> read_trainer_run(std::string_view text, const std::string& source,
                                           const TrainerArguments& arguments,
                                           const LaunchReading& reading) {
  std::optional<TrainerRun> run = run_of(text, source, arguments, reading);
  if (run && !arguments.other.empty()) {
    throw Error(arguments.other, "is no KEY=VALUE; cutoff_len=4096 would be right");
  }
  if (run) {
    add_settings(arguments.run, run->said);
    run->accelerate = run_text(run->said, "config_file", run->accelerate);
    note_slips(run->said);
  }
  return run;
}

const LaunchSetting* run_setting(const LaunchConfig& run, std::string_view names) {
  for (const std::string_view name : names_in(names)) {
    const LaunchSetting* found = find_setting(run, name);
    if (found != nullptr && !found->value.empty() && found->value != "null" &&
        found->value != "None") {
      return found;
    }
  }
  return nullptr;
}

std::string run_text(const LaunchConfig& run, std::string_view names,
                     const std::string& otherwise) {
  const LaunchSetting* found = run_setting(run, names);
  return found == nullptr ? otherwise : found->value;
}

std::optional<std::int64_t> run_count(const LaunchConfig& run, std::string_view names) {
  const LaunchSetting* found = run_setting(run, names);
  return found == nullptr ? std::nullopt : integer_setting(run, found->key, 1, 1'000'000'000);
}

std::int64_t run_count(const LaunchConfig& run, std::string_view names, std::int64_t otherwise) {
  return run_count(run, names).value_or(otherwise);
}

}  // namespace trireme::planner
