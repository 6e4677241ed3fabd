// AReaL: the actor (or the model of its SFT) that its YAML trains, by PyTorch's FSDP2, by Archon
// (torchtitan's way of it) or by Megatron-Core. Sources: AReaL of May 2026 (areal/api/cli_args.py,
// areal/engine/fsdp_engine.py, areal/engine/megatron_engine.py, areal/experimental/engine,
// areal/experimental/models/archon, areal/trainer/rl_trainer.py).
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "models/presets.h"
#include "planner/launch/field_table.h"
#include "planner/launch/megatron/megatron.h"
#include "planner/launch/torchtitan.h"
#include "planner/launch/trainers/areal_backend.h"
#include "planner/launch/trainers/areal_stages.h"
#include "planner/launch/trainers/rollouts.h"
#include "planner/launch/trainers/trainer.h"

namespace trireme::planner {
namespace {

const std::string kActor = "actor.";

// ---- FSDP2: mesh (data x Ulysses) shards, norms' activations lie along the sequence under tp

void read_areal_torch(const LaunchConfig& said, const ArealBackend& backend, LaunchConfig& config) {
  LaunchLayout& layout = config.layout;
  config.format = LaunchFormat::kAccelerate;
  config.framework = "fsdp2";
  layout.sharding = Sharding::kFull;
  layout.reshard_after_forward = true;
  layout.tensor = backend.degrees.tensor;
  layout.context = backend.degrees.context;
  layout.replicas = 1;
  layout.sequence_parallel = backend.degrees.tensor > 1;
  config.choices.emplace_back("shard_over_context=true");
  if (backend.degrees.context > 1) {
    config.choices.emplace_back("context_all_to_all=true");  // Ulysses
  }
  const std::string type = run_text(said, kActor + "dtype", "bfloat16");
  config.precision = type == "float32" ? "fp32" : type == "float16" ? "fp16" : "bf16";
  if (type != "float32") {  // the weights are loaded in it, and AdamW's states are theirs
    config.choices.emplace_back("parameter_dtype=bf16");
    config.choices.emplace_back("optimizer_dtype=bf16");
  }
  const bool wide = run_text(said, kActor + "grad_reduce_dtype", "float32") == "float32";
  config.choices.emplace_back(wide ? "reduce_dtype=fp32" : "reduce_dtype=bf16");
  if (is_on(said, fmt::format("{}{}.offload_params", kActor, backend.engine))) {
    config.offload = {"parameters"};
  }
  if (run_text(said, kActor + "optimizer.type") == "adam_bf16") {
    config.unmodelled.emplace_back("the compensation that adam_bf16 keeps");
  }
}

void read_areal_fsdp(const LaunchConfig& said, const ArealBackend& backend, LaunchConfig& config) {
  read_areal_torch(said, backend, config);
  if (is_on(said, kActor + "gradient_checkpointing")) {
    config.layout.recompute = Recompute::kFull;
  }
  if (is_on(said, kActor + "fsdp.per_layer_optim_step")) {
    config.unmodelled.emplace_back("fsdp.per_layer_optim_step");
  }
}

// ---- Archon: stages and experts beside the mesh, recompute by torchtitan's modes

void read_archon_recompute(const LaunchConfig& said, LaunchConfig& config) {
  const std::string owner = kActor + "archon.";
  const std::string mode = run_text(said, owner + "ac_mode", "selective");
  const std::string option = run_text(said, owner + "selective_ac_option", "op");
  LaunchLayout& layout = config.layout;
  if (!is_on(said, kActor + "gradient_checkpointing") || mode == "none") {
    return;
  }
  const bool by_layer = mode == "selective" && option != "op";
  layout.recompute = mode == "full" || by_layer ? Recompute::kFull : Recompute::kSelective;
  if (by_layer) {
    layout.recompute_every = run_count(said, owner + "selective_ac_option", 2);
  }
  layout.recompute_modules = kTorchPerOp;
  if (mode == "memory_budget") {
    config.unmodelled.emplace_back("recompute by a memory budget");
  }
}

void read_archon_stages(const LaunchConfig& said, LaunchConfig& config) {
  const std::string owner = kActor + "archon.";
  const std::string name = run_text(said, owner + "pp_schedule", "Interleaved1F1B");
  LaunchLayout& layout = config.layout;
  layout.schedule = kTorchScheduleNames.value_of(name).value_or(Schedule::kInterleaved);
  if (name == "InterleavedZeroBubble") {
    config.remarks.push_back(fmt::format(
        "schedule {} is modelled as interleaved 1F1B: its bubble may be smaller", name));
  }
  layout.spread_layers = true;
  layout.first_chunk_less = run_count(said, owner + "pp_first_stage_less_layers", 1);
  layout.last_chunk_less = run_count(said, owner + "pp_last_stage_less_layers", 1);
  layout.layers_per_virtual_stage = run_count(said, owner + "pp_layers_per_stage", 0);
  if (layout.layers_per_virtual_stage == 0) {
    layout.virtual_pipeline = name == "1F1B" ? 1 : 2;
  }
}

void read_areal_archon(const LaunchConfig& said, const ArealBackend& backend,
                       LaunchConfig& config) {
  read_areal_torch(said, backend, config);
  config.predicted_as = config.framework;  // layers of its own, not transformers'
  const std::string owner = kActor + "archon.";
  LaunchLayout& layout = config.layout;
  layout.pipeline = backend.degrees.pipeline;
  layout.expert = backend.degrees.expert;
  layout.expert_tensor = backend.expert_tensor;
  const std::string reshard = run_text(said, owner + "reshard_after_forward_policy", "default");
  layout.reshard_after_forward =
      reshard == "always" || (reshard == "default" && backend.degrees.pipeline == 1);
  config.choices.push_back(fmt::format("compile={}", is_on(said, owner + "enable_compile")));
  if (run_text(said, owner + "fp8_config.mode", "disabled") == "blockwise") {
    config.precision = "fp8";
  }
  read_archon_recompute(said, config);
  if (backend.degrees.pipeline > 1) {
    read_archon_stages(said, config);
  }
}

// ---- Megatron-Core

void put_areal_recompute(const LaunchConfig& said, LaunchConfig& config) {
  const std::string owner = kActor + "megatron.";
  const std::string depth = run_text(said, owner + "recompute_granularity", "full");
  const auto put = [&](const std::string& key, const std::string& otherwise) {
    if (const std::string value = run_text(said, owner + key, otherwise); !value.empty()) {
      put_setting(config, key, value, nullptr);
    }
  };
  put("recompute_granularity", depth);
  put("recompute_modules", "");
  if (depth == "full") {
    put("recompute_method", "uniform");
    put("recompute_num_layers", "1");
  }
}

void read_areal_megatron(const LaunchConfig& said, const ArealBackend& backend,
                         LaunchConfig& config) {
  const auto put = [&](const char* key, const std::string& value) {
    put_setting(config, key, value, nullptr);
  };
  config.format = LaunchFormat::kMegatron;
  config.program = MegatronProgram::kVerl;
  const std::string owner = kActor + "megatron.";
  for (const LaunchSetting& setting : said.settings) {
    std::string_view key = setting.key;
    if (!key.starts_with(owner)) {
      continue;
    }
    key.remove_prefix(owner.size());
    key.remove_prefix(key.starts_with("ddp.") ? 4 : 0);
    if (key.find('.') == std::string_view::npos && !key.starts_with("recompute_") &&
        key != "virtual_pipeline_parallel_size") {
      config.settings.push_back({std::string(key), setting.value, setting.spelled, setting.line});
    }
  }
  const ArealDegrees& degrees = backend.degrees;
  for (const auto& [key, degree] : {std::pair{"tensor_model_parallel_size", degrees.tensor},
                                    {"pipeline_model_parallel_size", degrees.pipeline},
                                    {"context_parallel_size", degrees.context},
                                    {"expert_model_parallel_size", degrees.expert},
                                    {"expert_tensor_parallel_size", backend.expert_tensor}}) {
    put(key, std::to_string(degree));
  }
  if (const std::int64_t chunks = run_count(said, owner + "virtual_pipeline_parallel_size", 1);
      chunks > 1) {
    put("virtual_pipeline_model_parallel_size", std::to_string(chunks));
  }
  const std::string type = run_text(said, kActor + "dtype", "bfloat16");
  if (type != "float32") {
    put(type == "float16" ? "fp16" : "bf16", "true");
  }
  put("sequence_parallel", degrees.tensor > 1 ? "true" : "false");
  set_default(config, "use_distributed_optimizer", "true");
  if (is_on(said, kActor + "use_lora")) {
    put("use_distributed_optimizer", "false");
  }
  if (!switch_setting(config, "grad_reduce_in_fp32").value_or(true)) {
    put("grad_reduce_in_bf16", "true");
  }
  put("attention_dropout", "0");
  put("hidden_dropout", "0");
  if (is_on(said, kActor + "gradient_checkpointing")) {
    put_areal_recompute(said, config);
  }
  if (const std::string mode = run_text(said, owner + "fp8_config.mode"); !mode.empty()) {
    put("fp8", mode);
    put_setting(config, "fp8_recipe", run_text(said, owner + "fp8_config.recipe", "delayed"),
                run_setting(said, owner + "fp8_config.recipe"));
  }
  if (run_text(said, kActor + "optimizer.type") == "adam_bf16") {
    put("use_precision_aware_optimizer", "true");
    put("exp_avg_dtype", "bf16");
    put("exp_avg_sq_dtype", "bf16");
  }
  config.environment.push_back({"CUDA_DEVICE_MAX_CONNECTIONS", "1", "AReaL's workers"});
  read_megatron_layout(config);
  if (!config.model_name.empty()) {
    config.layout.stage_layers =
        areal_stages(models::load_model(config.model_name),
                     degrees.pipeline * config.layout.virtual_pipeline.value_or(1), degrees.expert);
  }
}

// ---- batch

// Tokens of a sample at most: an agent's whole talk, or a prompt with its answer.
std::optional<std::int64_t> longest_sample(const LaunchConfig& said, bool rollouts) {
  constexpr std::int64_t kAnswer = 16384;  // cli_args.py, max_new_tokens
  const auto talk = run_count(said, "rollout.agent.engine_max_tokens");
  const auto given = run_count(said, "train_dataset.max_length");
  if (talk || !given) {
    return talk;
  }
  return *given + (rollouts ? run_count(said, "gconfig.max_new_tokens", kAnswer) : 0);
}

// A micro-batch is a pack of at most max_tokens_per_mb tokens, and a rank has at least n_mbs of
// them; without that limit it has n_mbs. Stages take 2 p or more (megatron_engine.py).
void read_areal_packs(const LaunchConfig& said, std::int64_t samples, LaunchConfig& config) {
  const std::int64_t stages = config.layout.pipeline.value_or(1);
  const std::int64_t ranks = data_ranks(config);
  const std::int64_t fewest = std::max(run_count(said, kActor + "mb_spec.n_mbs", 1),
                                       stages > 1 ? 2 * stages : std::int64_t{1});
  const auto limit = run_count(said, kActor + "mb_spec.max_tokens_per_mb");
  if (!limit) {
    config.global_batch = samples;
    config.layout.micro_batch = std::max<std::int64_t>(1, samples / ranks / fewest);
    note_unpacked(config);
    return;
  }
  const RolloutPacks packs = packs_of({.step = samples,
                                       .longest = config.sequence,
                                       .ranks = ranks,
                                       .divisor = stages,
                                       .by = "mb_spec",
                                       .limit = "max_tokens_per_mb"},
                                      *limit, config);
  config.sequence = packs.sequence;
  config.layout.micro_batch = 1;
  config.global_batch = std::max(packs.batch.value_or(1), fewest * ranks);
}

void read_areal_step(const LaunchConfig& said, LaunchConfig& config) {
  const bool rollouts = run_setting(said, "gconfig.max_new_tokens gconfig.n_samples") != nullptr;
  const std::string kind = run_text(said, "train_dataset.type");
  const std::int64_t pairs = kind == "dpo" || kind == "rw" ? 2 : 1;
  const std::int64_t parts = rollouts ? run_count(said, kActor + "ppo_n_minibatches", 4) : 1;
  const std::int64_t samples = run_count(said, "train_dataset.batch_size", 1) * pairs *
                               run_count(said, "gconfig.n_samples", 1);
  config.sequence = longest_sample(said, rollouts);
  read_areal_packs(said, std::max<std::int64_t>(1, samples / parts), config);
  if (rollouts) {
    note_actor(config, static_cast<double>(parts));
  }
  if (kind == "rw" || is_on(said, kActor + "is_critic")) {
    config.foreign.emplace_back("a head of one score in place of the vocabulary's");
  }
}

// Models on the actor's own GPUs that are not moved to the host while it trains.
void read_areal_neighbours(const LaunchConfig& said, LaunchConfig& config) {
  constexpr std::pair<const char*, const char*> kNeighbours[] = {
      {"ref", "the reference model"}, {"critic", "the critic"}, {"teacher", "the teacher"}};
  for (const auto& [role, what] : kNeighbours) {
    const std::string owner = std::string(role) + ".";
    if (run_text(said, owner + "scheduling_strategy.type") == "colocation" &&
        !is_on(said, owner + "offload")) {
      note_beside(config, what);
    }
  }
}

}  // namespace

bool is_areal(std::string_view text, const std::string& source) {
  const auto has = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
  return is_yaml(source) && (text.starts_with("actor:") || has("\nactor:")) &&
         (has("\n  mb_spec:") || has("max_tokens_per_mb:"));
}

LaunchConfig read_areal(std::string_view text, const std::string& source,
                        const std::vector<std::string>& arguments) {
  LaunchConfig said;
  said.source = source;
  said.format = LaunchFormat::kAccelerate;
  read_yaml_settings(text, said);
  add_arguments(arguments, "actor.backend=fsdp:d8", said);
  settle_references(said);
  LaunchConfig config = said;
  config.settings.clear();
  const ArealBackend backend = areal_backend(said);
  const ArealDegrees& degrees = backend.degrees;
  config.gpus = degrees.data * degrees.pipeline * degrees.tensor * degrees.context;
  config.gpus_per_node = std::min(*config.gpus, run_count(said, "cluster.n_gpus_per_node", 8));
  if (const LaunchSetting* model = run_setting(said, "actor.path")) {
    take_model(model->value, config);
  }
  if (is_on(said, kActor + "use_lora")) {
    config.training.rank = run_count(said, kActor + "lora_rank", 32);
    config.training.base = BaseFormat::kSixteenBit;
    if (const LaunchSetting* targets = run_setting(said, kActor + "target_modules")) {
      take_targets(targets->spelled, targets->value, config);
    }
  }
  if (backend.engine == "megatron") {
    read_areal_megatron(said, backend, config);
  } else if (backend.engine == "archon") {
    read_areal_archon(said, backend, config);
  } else {
    read_areal_fsdp(said, backend, config);
  }
  read_areal_step(said, config);
  read_areal_neighbours(said, config);
  put_program("areal", config);
  return config;
}

}  // namespace trireme::planner
