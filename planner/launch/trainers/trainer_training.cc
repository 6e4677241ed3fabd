// What a run of transformers' Trainer trains: model, lengths, batch, adapters and the bits of their
// base. Defaults are the programs' own: LLaMA-Factory hparams/*.py, axolotl utils/schemas, ms-swift
// swift/arguments and swift/trainers/arguments.py, TRL trainer/model_config.py, all of summer 2026.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "models/model_names.h"
#include "planner/launch/field_table.h"
#include "planner/launch/preference.h"
#include "planner/launch/trainers/trainer.h"

namespace trireme::planner {
namespace {

constexpr std::string_view kModelKeys = "model_name_or_path base_model model model_name";
constexpr std::string_view kSequence =
    "cutoff_len sequence_len model_max_length max_seq_length max_length max_seq_len block_size";
constexpr std::string_view kMicroBatch = "per_device_train_batch_size micro_batch_size";
constexpr std::string_view kTuner = "finetuning_type adapter tuner_type train_type train_mode";

// What a program takes unless told, in the order of TrainerProgram.
struct Defaults {
  std::string_view tuner;
  std::int64_t rank, micro_batch, sequence;  // 0: the model's longest
  double dropout;                            // before adapters
  bool recomputes, quantised_scales;
  bool half_weights;  // weights that are trained are loaded in 16 bits, and nothing casts them
};
constexpr Defaults kDefaults[] = {{"full", 16, 8, 0, 0.05, false, false, false},
                                  {"lora", 8, 8, 2048, 0, true, true, false},
                                  {"full", 8, 1, 0, 0, false, true, true},
                                  {"lora", 8, 1, 0, 0.05, true, true, true}};

const Defaults& defaults_of(const TrainerRun& run) {
  return kDefaults[static_cast<std::size_t>(run.program)];
}

std::string tuner_of(const TrainerRun& run) {
  return run_text(run.said, kTuner, std::string(defaults_of(run).tuner));
}

bool has_adapters(const TrainerRun& run) {
  const std::string tuner = tuner_of(run);
  return tuner == "lora" || tuner == "qlora" || is_on(run.said, "use_lora") ||
         is_on(run.said, "use_peft");
}

// ---- the frozen weights beside adapters

// bitsandbytes unless another method is named; the scales in 8 bits too, but for TRL's default.
BaseFormat base_of(const TrainerRun& run) {
  const LaunchConfig& said = run.said;
  const std::string bits = run_text(said, "quantization_bit quant_bits");
  const std::string name = in_capitals(run_text(said, kModelKeys));
  if (name.find("GPTQ") != std::string::npos || name.find("AWQ") != std::string::npos) {
    return BaseFormat::kGptq4;
  }
  if (bits == "8" || is_on(said, "load_in_8bit")) {
    return BaseFormat::kInt8;
  }
  const bool four = bits == "4" || is_on(said, "load_in_4bit") ||
                    run_text(said, "train_mode") == "qlora";  // Firefly's
  if (!four && name.find("BNB-4BIT") == std::string::npos) {
    return BaseFormat::kSixteenBit;
  }
  for (const char* key :
       {"double_quantization", "bnb_4bit_use_double_quant", "use_bnb_nested_quant"}) {
    if (const auto twice = switch_setting(said, key)) {
      return *twice ? BaseFormat::kNf4Double : BaseFormat::kNf4;
    }
  }
  return defaults_of(run).quantised_scales ? BaseFormat::kNf4Double : BaseFormat::kNf4;
}

void read_targets(const TrainerRun& run, LaunchConfig& config) {
  const LaunchSetting* names =
      run_setting(run.said, "lora_target lora_target_modules target_modules");
  if (names == nullptr || is_on(run.said, "lora_target_linear")) {
    return;
  }
  take_targets(names->spelled, names->value, config);
}

void read_adapters(const TrainerRun& run, LaunchConfig& config) {
  if (!has_adapters(run)) {
    return;
  }
  Training& training = config.training;
  training.rank = run_count(run.said, "lora_rank lora_r").value_or(defaults_of(run).rank);
  training.base = base_of(run);
  training.adapter_dropout =
      number_setting(run.said, "lora_dropout").value_or(defaults_of(run).dropout);
  read_targets(run, config);
}

// What trains otherwise than the weights or adapters of one model, whole on each rank but for what
// is sharded. The table says with which values it does not.
void note_other_training(const TrainerRun& run, LaunchConfig& config) {
  constexpr std::pair<const char*, std::string_view> kOfOneModel[] = {
      {"finetuning_type", "full lora"},
      {"adapter", "lora qlora"},
      {"tuner_type", "full lora"},
      {"train_type", "full lora"},
      {"train_mode", "full lora qlora"},
      {"use_kt", "false"},
      {"quantization_method", "bnb bitsandbytes"},
      {"quant_method", "bnb"},
      {"use_dora", "false"},
      {"peft_use_dora", "false"},
      {"use_galore", "false"},
      {"use_badam", "false"},
      {"use_apollo", "false"},
      {"use_llama_pro", "false"},
      {"freeze_parameters_ratio", "0"},
      {"unfrozen_parameters", "none"},
      {"do_predict", "false"},
      {"fp8", "false"},
      {"use_unsloth", "false"},
      {"activation_offloading", "false"},
      {"tensor_parallel_size", "1"},
      {"context_parallel_size", "1"},
      {"expert_parallel_size", "1"},
      {"sequence_parallel_size", "1"},
      {"sequence_parallel_degree", "1"}};
  for (const auto& [key, values] : kOfOneModel) {
    const bool axolotls = has_setting(config, "parallelism_config") &&
                          is_among(
                              "tensor_parallel_size context_parallel_size "
                              "sequence_parallel_degree",
                              key);
    const LaunchSetting* setting = run_setting(run.said, key);
    if (axolotls || (setting != nullptr && setting == ulysses_ranks(run))) {
      continue;  // read with what shards
    }
    if (setting != nullptr && !is_among(values, setting->value) &&
        !is_among("none false False no off 0", setting->value)) {
      config.foreign.push_back(fmt::format("{} {}", setting->spelled, setting->value));
    }
  }
  const LaunchSetting* rank = run_setting(run.said, "lora_rank lora_r");
  if (run.program == TrainerProgram::kTransformers && rank != nullptr && !has_adapters(run) &&
      run_setting(run.said, std::string(kTuner) + " use_peft use_lora") == nullptr) {
    config.foreign.push_back(
        fmt::format("{} without a word that says whether adapters are trained", rank->spelled));
  }
  for (const LaunchSetting& setting : run.said.settings) {
    if (run.program == TrainerProgram::kTransformers && !setting.meant.empty()) {
      config.foreign.push_back(setting.spelled);  // a script may have it
    }
  }
  if (in_capitals(run_text(run.said, kModelKeys)).find("AQLM") != std::string::npos) {
    config.foreign.emplace_back("a base in AQLM's bits");
  }
  const bool quantised = base_of(run) != BaseFormat::kSixteenBit;
  if (quantised && !has_adapters(run)) {
    config.foreign.emplace_back("a quantised model whose weights are trained whole");
  }
}

// LLaMA-Factory's pref_loss says which of the methods its stage dpo is
// (hparams/finetuning_args.py).
void read_preferences(const TrainerRun& run, LaunchConfig& config) {
  const LaunchSetting* given = run_setting(run.said, "rlhf_type rl stage");
  const LaunchSetting* task = run_setting(run.said, "task_type");  // Firefly's; PEFT's is another
  given = given == nullptr && task != nullptr && task->value == "dpo" ? task : given;
  std::string method = given != nullptr ? given->value : run.method;
  if (given != nullptr && given->key == "stage" && method == "dpo") {
    const std::string loss = run_text(run.said, "pref_loss", "sigmoid");
    method = is_among("sigmoid hinge ipo kto_pair", loss) ? method : loss;
  }
  read_method(method, given != nullptr ? given->spelled : "its program trains by", run.said,
              config);
}

// ---- types and kernels

// Weights that are trained in 16 bits and have no fp32 copy: ms-swift and axolotl load them so and
// nothing casts them; LLaMA-Factory where told. FSDP and DeepSpeed keep fp32 of their own.
void read_types(const TrainerRun& run, LaunchConfig& config) {
  const std::string precision = precision_of_trainer(run);
  const bool plain = config.layout.sharding == Sharding::kNone &&
                     config.format == LaunchFormat::kAccelerate && !has_adapters(run);
  const bool pure = defaults_of(run).half_weights || is_on(run.said, "pure_bf16");
  if (plain && pure && precision == "bf16") {
    config.choices.emplace_back("parameter_dtype=bf16");
    config.choices.emplace_back("optimizer_dtype=bf16");
  }
  const std::string attention =
      run_text(run.said, "attn_implementation attn_impl flash_attn", "sdpa");
  if (attention == "eager" || attention == "disabled") {
    config.attention = "unfused";
  }
}

// Liger's kernel takes logits in about as many parts as the vocabulary is wider than a token
// (fused_linear_cross_entropy.py: 128256 / 4096); cut cross entropy in smaller ones.
void read_loss(const TrainerRun& run, LaunchConfig& config) {
  bool parts = run_text(run.said, "plugins").find("CutCrossEntropy") != std::string::npos;
  for (const char* key : {"use_liger_kernel", "use_liger", "enable_liger_kernel",
                          "liger_fused_linear_cross_entropy", "cut_cross_entropy"}) {
    parts |= has_setting(run.said, key) && is_on(run.said, key);
  }
  if (parts) {
    config.choices.emplace_back("loss_chunks=32");
  }
}

void read_optimizer(const TrainerRun& run, LaunchConfig& config) {
  if (has_setting(config, "optimizer.type")) {
    return;  // DeepSpeed's own
  }
  const std::string name = run_text(run.said, "optim optimizer", "adamw_torch");
  const bool adam =
      name.find("adam") != std::string::npos && name.find("mini") == std::string::npos;
  if (name.find("8bit") != std::string::npos || name.find("4bit") != std::string::npos) {
    config.optimizer = "adam8bit";
  } else if (name == "sgd") {
    config.optimizer = "sgd";
  } else if (!adam) {
    config.remarks.push_back(fmt::format("optimizer {} is modelled as adam", name));
    config.unmodelled.push_back("optimizer " + name);
  }
}

// ---- the run

void read_recompute(const TrainerRun& run, LaunchConfig& config) {
  const LaunchSetting* given = find_setting(run.said, "gradient_checkpointing");
  const bool alone = given != nullptr && given->value.empty();  // --gradient_checkpointing
  const std::string said = alone ? "true" : run_text(run.said, "gradient_checkpointing");
  const bool told = !said.empty() || run.program != TrainerProgram::kTransformers ||
                    config.format == LaunchFormat::kDeepspeed;
  bool recomputes = defaults_of(run).recomputes;
  if (run.program == TrainerProgram::kFactory) {
    recomputes = !is_on(run.said, "disable_gradient_checkpointing");
  } else if (!said.empty()) {
    // axolotl's other words for yes: unsloth, offload, offload_disk
    recomputes = !is_among("false False no off 0", said);
  }
  if (recomputes) {
    config.layout.recompute = Recompute::kFull;
  }
  config.offloads_checkpoints |= said == "offload";
  if (told || recomputes) {
    config.recompute_is_open = false;
  }
}

void read_batch(const TrainerRun& run, LaunchConfig& config) {
  if (config.format == LaunchFormat::kDeepspeed) {
    return;  // "auto" is filled
  }
  LaunchLayout& layout = config.layout;
  layout.micro_batch = run_count(run.said, kMicroBatch).value_or(defaults_of(run).micro_batch);
  if (run.program == TrainerProgram::kFactory && run_setting(run.said, "global_batch_size")) {
    config.global_batch = run_count(run.said, "global_batch_size");  // its second syntax
    return;
  }
  const std::int64_t ranks = config.gpus.value_or(1) * *layout.micro_batch;
  // ms-swift: sixteen sequences a step
  const std::int64_t usual =
      run.program == TrainerProgram::kSwift ? std::max<std::int64_t>(1, (15 + ranks) / ranks) : 1;
  layout.micro_batches = run_count(run.said, "gradient_accumulation_steps").value_or(usual);
}

void read_model(const TrainerRun& run, LaunchConfig& config) {
  if (const LaunchSetting* model = run_setting(run.said, kModelKeys); model != nullptr) {
    take_model(model->value, config);
  }
  config.sequence = run_count(run.said, kSequence);
  if (!config.sequence && defaults_of(run).sequence > 0) {
    config.sequence = defaults_of(run).sequence;
  }
  const auto on = [&](const char* key) {
    return has_setting(run.said, key) && is_on(run.said, key);
  };
  const bool full = on("packing") || on("sample_packing") || on("pad_to_sequence_len") ||
                    run_text(run.said, "stage") == "pt" || on("group_texts");
  if (!full) {
    note_unpacked(config);
  }
}

}  // namespace

void take_model(const std::string& model, LaunchConfig& config) {
  config.model_name = models::preset_in(model);
  config.model_said = model;
  const std::string name = in_capitals(model);
  constexpr std::string_view kSeeing[] = {"-VL", "-OMNI", "VISION", "GLM-4.5V", "GLM-4.6V"};
  if (std::any_of(std::begin(kSeeing), std::end(kSeeing),
                  [&](std::string_view part) { return name.find(part) != std::string::npos; })) {
    config.foreign.push_back("what " + model + " has beside its decoder");
  }
}

void take_targets(std::string_view spelled, const std::string& names, LaunchConfig& config) {
  try {
    config.training.targets = adapter_targets_of(names);
  } catch (const Error&) {
    config.foreign.push_back(fmt::format("{} {}", spelled, names));
  }
}

std::string precision_of_trainer(const TrainerRun& run) {
  const std::string type = run_text(run.said, "torch_dtype dtype");
  for (const char* name : {"bf16", "fp16"}) {
    // axolotl's `bf16: auto` is bf16 where the card has it, `full` without fp32 copies
    const std::string value = run_text(run.said, name);
    const LaunchSetting* given = find_setting(run.said, name);
    const bool alone = given != nullptr && given->value.empty();  // --bf16
    if (alone || (!value.empty() && !is_among("false False no off 0", value)) ||
        is_on(run.said, fmt::format("pure_{}", name)) ||
        type == (name[0] == 'b' ? "bfloat16" : "float16")) {
      return name;
    }
  }
  const bool silent = type.empty() && run_setting(run.said, "bf16 fp16") == nullptr;
  return silent && run.program == TrainerProgram::kSwift ? "bf16" : "";
}

void read_training(const TrainerRun& run, LaunchConfig& config) {
  if (run.said.gpus) {
    config.gpus = run.said.gpus;
  }
  config.gpus_per_node = run.said.gpus_per_node;
  read_model(run, config);
  read_batch(run, config);
  read_recompute(run, config);
  read_adapters(run, config);
  read_reentrance(run, config);
  note_other_training(run, config);
  read_preferences(run, config);
  config.foreign.insert(config.foreign.end(), run.said.foreign.begin(), run.said.foreign.end());
  read_types(run, config);
  read_loss(run, config);
  read_optimizer(run, config);
  config.environment = run.said.environment;
  config.undecided = run.said.undecided;
  config.unreadable.insert(config.unreadable.end(), run.said.unreadable.begin(),
                           run.said.unreadable.end());
  config.remarks.insert(config.remarks.begin(), run.said.remarks.begin(), run.said.remarks.end());
}

}  // namespace trireme::planner
