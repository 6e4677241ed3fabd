// NeMo Automodel: the model that its YAML trains by PyTorch's FSDP2, with tensor, pipeline and
// expert axes beside it. Sources: Automodel of August 2026 (nemo_automodel/recipes/llm/train_ft.py,
// components/distributed/config.py, mesh_utils.py and parallelizer.py,
// components/moe/parallelizer.py, components/models/common/utils.py, examples/llm_*).
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "models/presets.h"
#include "planner/launch/field_table.h"
#include "planner/launch/read_launch.h"
#include "planner/launch/trainers/rollouts.h"
#include "planner/launch/trainers/trainer.h"

namespace trireme::planner {
namespace {

bool has_section(const LaunchConfig& said, std::string_view section) {
  return std::any_of(said.settings.begin(), said.settings.end(), [&](const LaunchSetting& setting) {
    return setting.key.starts_with(section);
  });
}

// A number, or "none", "auto" and 0 for what follows.
std::int64_t degree_of(const LaunchConfig& said, const std::string& key) {
  return is_among("none None null auto 0", run_text(said, key)) ? 1 : run_count(said, key, 1);
}

void refuse_other_strategies(const LaunchConfig& said) {
  const LaunchSetting* named = run_setting(said, "distributed.strategy distributed._target_");
  if (named == nullptr || named->value == "fsdp2" ||
      named->value.find("FSDP2") != std::string::npos) {
    return;
  }
  throw Error(where_of(said, *named),
              fmt::format("shards by Automodel's {}, which is not read; its model, batch and "
                          "degrees as options of `trireme estimate` would be right",
                          named->value));
}

// ---- the mesh: pp x dp_replicate x dp_shard x cp x tp, experts over all but pp

void read_axes(const LaunchConfig& said, LaunchConfig& config) {
  const std::string owner = "distributed.";
  LaunchLayout& layout = config.layout;
  layout.sharding = Sharding::kFull;
  layout.tensor = degree_of(said, owner + "tp_size");
  layout.pipeline = degree_of(said, owner + "pp_size");
  layout.context = degree_of(said, owner + "cp_size");
  layout.expert = degree_of(said, owner + "ep_size");
  layout.replicas = degree_of(said, owner + "dp_replicate_size");
  if (*layout.expert > 1) {
    layout.expert_tensor = 1;
  }
  layout.sequence_parallel = is_on(said, owner + "sequence_parallel");
  config.choices.emplace_back("shard_over_context=true");
  if (const std::int64_t data = degree_of(said, owner + "dp_size"); data > 1) {
    config.gpus = data * *layout.tensor * *layout.pipeline * *layout.context;
  }
  // Blocks of experts stay gathered, and so do the layers of a pipeline, unless the file says.
  const bool experts =
      !config.model_name.empty() && models::load_model(config.model_name).moe.has_value();
  layout.reshard_after_forward =
      experts
          ? is_on(said, owner + "moe.reshard_after_forward")
          : switch_setting(said, owner + "reshard_after_forward").value_or(*layout.pipeline == 1);
}

// A step runs the schedule over the local batch once for every accumulation.
void read_schedule(const LaunchConfig& said, LaunchConfig& config) {
  const std::string owner = "distributed.pipeline.";
  LaunchLayout& layout = config.layout;
  const std::string name = in_capitals(run_text(said, owner + "pp_schedule", "1f1b"));
  layout.micro_batch = run_count(said, owner + "pp_microbatch_size", 1);
  layout.schedule = Schedule::kOneForwardOneBackward;
  layout.spread_layers = true;
  if (name.find("GPIPE") != std::string::npos) {
    layout.schedule = Schedule::kGpipe;
  } else if (name.find("INTERLEAVED") != std::string::npos) {
    const auto layers = run_count(said, owner + "layers_per_stage");
    layout.schedule = Schedule::kInterleaved;
    layout.virtual_pipeline = layers ? std::nullopt : std::optional<std::int64_t>(2);
    layout.layers_per_virtual_stage = layers.value_or(0);
  } else if (name != "1F1B") {
    config.foreign.push_back("schedule " + name);
  }
  const std::int64_t local = run_count(said, "step_scheduler.local_batch_size", 1);
  if (config.global_batch.value_or(local) > local * data_ranks(config)) {
    config.remarks.emplace_back(
        "the pipeline empties after every local batch, and is timed as if it emptied once a step");
  }
}

// ---- what a layer is, and what recomputes

void read_types(const LaunchConfig& said, LaunchConfig& config) {
  const std::string type = run_text(said, "model.torch_dtype model.dtype", "bfloat16");
  config.precision = "bf16";  // FSDP2Config.mp_policy, whatever the weights are held in
  if (type.find("32") == std::string::npos) {
    config.choices.emplace_back("parameter_dtype=bf16");
    if (is_on(said, "optimizer.master_weights")) {
      config.unmodelled.emplace_back("the fp32 weights that master_weights keeps");
    } else {
      config.choices.emplace_back("optimizer_dtype=bf16");
    }
  }
  config.choices.emplace_back("reduce_dtype=fp32");
  if (has_section(said, "model.backend.te_fp8") || is_on(said, "fp8.enabled")) {
    config.precision = "fp8";
  }
}

void read_layers(const LaunchConfig& said, LaunchConfig& config) {
  // Models of its own run Transformer Engine's kernels unless the file says others.
  const bool own = !is_on(said, "model.force_hf") &&
                   run_text(said, "model.backend.attn", "te") == "te" &&
                   run_setting(said, "model.attn_implementation") == nullptr;
  config.framework = own ? "nemo-automodel" : "fsdp2";
  if (run_text(said, "model.attn_implementation model.backend.attn") == "eager") {
    config.attention = "unfused";
  }
  if (run_text(said, "loss_fn._target_").find("FusedLinear") != std::string::npos) {
    config.choices.emplace_back("loss_chunks=32");
  }
  if (is_on(said, "compile.enabled")) {
    config.choices.emplace_back("compile=true");
  }
  if (has_section(said, "distributed.offload_policy")) {
    config.offload = {"parameters"};
  }
  const LaunchSetting* recompute = run_setting(said, "distributed.activation_checkpointing");
  if (recompute != nullptr && recompute->value == "selective") {
    config.layout.recompute = Recompute::kSelective;
    config.layout.recompute_modules = kTorchPerOp;
  } else if (recompute != nullptr && is_on(said, recompute->key)) {
    config.layout.recompute = Recompute::kFull;
    if (config.layout.expert.value_or(1) == 1) {
      note_beside(config, "what attention, MLP and norms keep where they recompute one by one");
    }
  }
}

void read_adapters(const LaunchConfig& said, LaunchConfig& config) {
  if (!has_section(said, "peft.")) {
    return;
  }
  config.training.rank = run_count(said, "peft.dim", 8);
  config.training.adapter_dropout = number_setting(said, "peft.dropout").value_or(0);
  config.training.base = BaseFormat::kSixteenBit;
  if (is_on(said, "quantization.load_in_4bit")) {
    config.training.base = is_on(said, "quantization.bnb_4bit_use_double_quant")
                               ? BaseFormat::kNf4Double
                               : BaseFormat::kNf4;
  } else if (is_on(said, "quantization.load_in_8bit")) {
    config.training.base = BaseFormat::kInt8;
  }
  const LaunchSetting* targets = run_setting(said, "peft.target_modules");
  if (targets != nullptr && targets->value.find('*') == std::string::npos) {
    take_targets(targets->spelled, targets->value, config);
  }
}

// ---- batch

void read_lengths(const LaunchConfig& said, LaunchConfig& config) {
  const std::int64_t pack = degree_of(said, "packed_sequence.packed_sequence_size");
  const auto longest = run_count(
      said, "dataset.seq_length dataset.seq_len dataset.max_length dataset.max_seq_length");
  const std::string samples = run_text(said, "dataset._target_");
  const bool filled = samples.find("Mock") != std::string::npos ||
                      samples.find("egatron") != std::string::npos ||
                      samples.find("anogpt") != std::string::npos ||
                      run_text(said, "recipe").find("Benchmarking") != std::string::npos;
  config.sequence = pack > 1 ? pack : longest;
  if (pack <= 1 && !filled) {
    note_unpacked(config);
  }
}

void note_other_heads(const LaunchConfig& said, LaunchConfig& config) {
  const std::string recipe = run_text(said, "recipe");
  if (recipe.find("Distillation") != std::string::npos || has_section(said, "teacher_model.")) {
    config.foreign.emplace_back("distillation");
  }
  if (recipe.find("SequenceClassification") != std::string::npos) {
    config.foreign.emplace_back("a head of classes in place of the vocabulary's");
  }
}

}  // namespace

bool is_automodel(std::string_view text, const std::string& source) {
  const auto has = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
  return is_yaml(source) && has("nemo_automodel") && has("\nstep_scheduler:") && has("\nmodel:") &&
         has("CausalLM");
}

LaunchConfig read_automodel(std::string_view text, const std::string& source,
                            const std::vector<std::string>& arguments) {
  LaunchConfig said;
  said.source = source;
  said.format = LaunchFormat::kAccelerate;
  read_yaml_settings(text, said);
  add_arguments(arguments, "distributed.tp_size=2", said);
  settle_references(said);
  refuse_other_strategies(said);
  LaunchConfig config = said;
  config.settings.clear();
  config.format = LaunchFormat::kAccelerate;
  if (const LaunchSetting* model =
          run_setting(said,
                      "model.pretrained_model_name_or_path "
                      "model.config.pretrained_model_name_or_path model.config")) {
    take_model(model->value, config);
  }
  config.global_batch = run_count(said, "step_scheduler.global_batch_size");
  config.layout.micro_batch = run_count(said, "step_scheduler.local_batch_size", 1);
  read_axes(said, config);
  if (config.layout.pipeline.value_or(1) > 1) {
    read_schedule(said, config);
  }
  read_types(said, config);
  read_layers(said, config);
  read_adapters(said, config);
  read_lengths(said, config);
  note_other_heads(said, config);
  put_program("nemo-automodel", config);
  return config;
}

}  // namespace trireme::planner
