// What programs around transformers' Trainer refuse when a run starts, and how its owner would
// write what `check` advises.
#include "planner/start/trainer_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/launch/field_table.h"
#include "planner/launch/trainers/trainer.h"

namespace trireme::planner {
namespace {

using Found = std::optional<Finding>;

// The run's own setting of the first of the names that is there and says something.
const LaunchSetting* said(const LaunchConfig& config, std::string_view names) {
  for (const std::string_view name : names_in(names)) {
    const LaunchSetting* found = find_setting(config, fmt::format("{}{}", kRunSection, name));
    if (found != nullptr && !found->value.empty() &&
        !is_among("null None none false False", found->value)) {
      return found;
    }
  }
  return nullptr;
}

std::optional<TrainerProgram> program_of(const LaunchConfig& config) {
  const LaunchSetting* found = said(config, "program");
  const auto* const end = std::end(kProgramNames);
  const auto* const name =
      found == nullptr ? end : std::find(std::begin(kProgramNames), end, found->value);
  return name == end ? std::nullopt
                     : std::optional(static_cast<TrainerProgram>(name - std::begin(kProgramNames)));
}

// HfArgumentParser (LLaMA-Factory hparams/parser.py, TRL) and ms-swift (pipelines/base.py) stop on
// arguments that they do not have; axolotl's pydantic model passes over them.
Found trainer_keys(const LaunchConfig& config, const LaunchCase&) {
  std::vector<std::string> wrong;
  std::vector<std::string> right;
  for (const LaunchSetting& setting : config.settings) {
    if (setting.key.starts_with(kRunSection) && !setting.meant.empty()) {
      wrong.push_back(fmt::format("{} ({})", setting.spelled, place_of(config, setting)));
      right.push_back(setting.meant);
    }
  }
  if (wrong.empty()) {
    return {};
  }
  const auto program = program_of(config);
  const bool own = program == TrainerProgram::kTransformers;  // a script's own flags may be near
  const char* does = own                                   ? "has it only if its script adds it"
                     : program == TrainerProgram::kAxolotl ? "passes over it"
                                                           : "refuses it";
  const bool refuses = !own && program != TrainerProgram::kAxolotl;
  return Finding{fmt::format("{} {} no key of the run's program, which {}", fmt::join(wrong, ", "),
                             wrong.size() == 1 ? "is" : "are", does),
                 fmt::format("use {}{}", fmt::join(right, ", "), own ? " if a slip" : ""),
                 refuses ? std::nullopt : std::optional(Severity::kWarning)};
}

// transformers, trainer.py: "Using --fsdp xxx together with --deepspeed is not possible".
Found one_sharder(const LaunchConfig& config, const LaunchCase&) {
  const LaunchSetting* deepspeed = said(config, "deepspeed");
  const LaunchSetting* fsdp = said(config, "fsdp");
  if (deepspeed == nullptr || fsdp == nullptr) {
    return {};
  }
  return Finding{
      fmt::format("deepspeed {} and fsdp {} are both asked for, which the Trainer refuses",
                  deepspeed->value, fsdp->value),
      "leave one of the two out"};
}

// transformers, integrations/deepspeed.py, fill_match: what the JSON says itself must be the run's.
Found values_of_both(const LaunchConfig& config, const LaunchCase&) {
  constexpr std::pair<const char*, std::string_view> kBoth[] = {
      {"train_micro_batch_size_per_gpu", "per_device_train_batch_size micro_batch_size"},
      {"gradient_accumulation_steps", "gradient_accumulation_steps"}};
  for (const auto& [key, names] : kBoth) {
    const LaunchSetting* run = said(config, names);
    const auto json = integer_setting(config, key);
    if (run == nullptr || !json || run->open || run->value == fmt::format("{}", *json)) {
      continue;
    }
    return Finding{
        fmt::format("{} is {} in the DeepSpeed JSON, and {} is {} in the run: the Trainer "
                    "refuses values that differ",
                    key, *json, run->spelled, run->value),
        fmt::format("write \"{}\": \"auto\" in the JSON", key)};
  }
  return {};
}

constexpr LaunchRule kTrainerRules[] = {
    {"keys that the trainer has", Severity::kError, {}, trainer_keys},
    {"DeepSpeed or FSDP", Severity::kError, {}, one_sharder},
    {"the JSON's batch is the run's", Severity::kError, {}, values_of_both},
};

// How a run's program spells what a switch (KEY=VALUE of --set, recompute=, offload=) does.
struct Spelling {
  std::string_view setting;
  std::string_view words[4];  // in the order of TrainerProgram
};
constexpr Spelling kSpellings[] = {
    {"recompute=full",
     {"gradient_checkpointing true", "disable_gradient_checkpointing: false",
      "gradient_checkpointing: true", "--gradient_checkpointing true"}},
    {"recompute=none",
     {"gradient_checkpointing false", "disable_gradient_checkpointing: true",
      "gradient_checkpointing: false", "--gradient_checkpointing false"}},
    {"compile=true",
     {"torch_compile true", "torch_compile: true", "torch_compile: true", "--torch_compile true"}},
    {"offload=none",
     {"a DeepSpeed JSON or fsdp without offload",
      "deepspeed: a file without offload (ds_z3_config.json)",
      "deepspeed: deepspeed_configs/zero3_bf16.json, or fsdp_config: offload_params: false",
      "--deepspeed zero3 (zero2) without _offload"}},
};

}  // namespace

std::span<const LaunchRule> trainer_rules() {
  return kTrainerRules;
}

std::string_view trainer_spelling(const LaunchConfig& config, std::string_view setting) {
  if (const auto program = program_of(config)) {
    for (const Spelling& spelling : kSpellings) {
      if (spelling.setting == setting) {
        return spelling.words[static_cast<std::size_t>(*program)];
      }
    }
  }
  return {};
}

std::string trainer_batch(const LaunchConfig& config, const Plan& plan) {
  const auto program = program_of(config);
  if (!program) {
    return {};
  }
  const char* micro =
      program == TrainerProgram::kAxolotl ? "micro_batch_size" : "per_device_train_batch_size";
  return fmt::format("{} {}, gradient_accumulation_steps {}", micro,
                     std::max<std::int64_t>(1, plan.micro_batch / config.sequences_a_sample),
                     plan.micro_batches);
}

}  // namespace trireme::planner
