// verl: its actor of reinforcement learning and its SFT trainer, under PyTorch's FSDP or
// Megatron-Core. Sources: verl 0.4 (2025-05) to 1dda039b (2026-08), verl/trainer/config,
// verl/workers/fsdp_workers.py, verl/workers/actor, verl/workers/engine.
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "planner/launch/field_table.h"
#include "planner/launch/megatron/megatron.h"
#include "planner/launch/trainers/rollouts.h"
#include "planner/launch/trainers/trainer.h"
#include "planner/launch/trainers/verl.h"

namespace trireme::planner {
namespace {

// ---- PyTorch's FSDP

// By verl's words for a type (utils/torch_dtypes.py).
const char* verl_precision(const LaunchSetting* type) {
  const std::string_view name = type == nullptr ? "bf16" : std::string_view(type->value);
  return is_among("16 fp16 float16", name)   ? "fp16"
         : is_among("32 fp32 float32", name) ? "fp32"
                                             : "bf16";
}

// The weights rest in fp32 and are computed in bf16; a reduction is in fp32 (MixedPrecision).
void read_fsdp_types(const VerlRun& run, LaunchConfig& config) {
  config.precision = verl_precision(engine_setting(run, "dtype"));
  config.choices.emplace_back("reduce_dtype=fp32");
  config.choices.emplace_back("shard_over_context=true");
  const LaunchSetting* rests = engine_setting(run, "model_dtype");
  const bool narrow = rests != nullptr && is_among("bf16 bfloat16 fp16 float16 half", rests->value);
  if (config.training.rank > 0) {
    config.training.base = narrow ? BaseFormat::kSixteenBit : BaseFormat::kFp32;
  } else if (narrow) {
    config.choices.emplace_back("parameter_dtype=bf16");
    config.choices.emplace_back("optimizer_dtype=bf16");
  }
  // logprobs_from_logits: flash-attn's cross entropy writes the gradient over the 16-bit logits,
  // unless an entropy is taken from them too; that of the temperature's division is a second one.
  const LaunchSetting* entropy = run_setting(run.said, "actor_rollout_ref.actor.entropy_coeff");
  const bool whole =
      says(run.said, engine_setting(run, "calculate_entropy")) ||
      (entropy != nullptr && number_setting(run.said, entropy->key).value_or(0) != 0);
  if (!run.older && !whole) {
    config.choices.emplace_back("cross_entropy_fusion=true");
    config.choices.emplace_back("fused_logit_bytes=4");
  }
}

// create_device_mesh: fsdp_size ranks share the states, those of Ulysses among them; all where it
// is -1 or no fewer.
void read_group(const VerlRun& run, std::int64_t ulysses, LaunchConfig& config) {
  const LaunchSetting* size = engine_setting(run, "fsdp_size");
  const std::int64_t group =
      size == nullptr || size->value == "-1" ? 0 : count_of(run.said, size, 1);
  if (group > 0 && group < config.gpus.value_or(group + 1)) {
    config.layout.sharded = std::max<std::int64_t>(1, group / ulysses);
  } else {
    config.layout.replicas = 1;
  }
}

void read_fsdp(const VerlRun& run, const std::string& strategy, LaunchConfig& config) {
  const LaunchConfig& said = run.said;
  LaunchLayout& layout = config.layout;
  config.format = LaunchFormat::kAccelerate;
  config.framework = strategy == "fsdp2" ? "fsdp2" : "fsdp1";
  layout.sharding = Sharding::kFull;
  layout.reshard_after_forward = says(said, engine_setting(run, "reshard_after_forward"), true);
  const LaunchSetting* ulysses = engine_setting(run, "ulysses_sequence_parallel_size");
  const std::int64_t together =
      ulysses == nullptr ? 1 : integer_setting(said, ulysses->key, 1, 1'000'000).value_or(1);
  if (together > 1) {
    layout.context = together;
    config.choices.emplace_back("context_all_to_all=true");
  }
  read_group(run, together, config);
  if (says(said, model_setting(run, "enable_gradient_checkpointing"), true)) {
    layout.recompute = Recompute::kFull;
    config.offloads_checkpoints = says(said, model_setting(run, "enable_activation_offload"));
  }
  for (const char* key : {"offload_policy", "cpu_offload", "offload_params"}) {
    if (says(said, engine_setting(run, key)) && config.offload.empty()) {
      config.offload = {"parameters"};
    }
  }
  read_fsdp_types(run, config);
  const std::string optimizer =
      in_capitals(run_text(run.said, "actor_rollout_ref.actor.optim.optimizer optim.optimizer"));
  if (optimizer.find("8BIT") != std::string::npos) {
    config.optimizer = "adam8bit";
  }
  if (optimizer == "ADAMW_BF16" && config.training.rank == 0) {  // EasyR1's AnyPrecisionAdamW
    config.choices.emplace_back("optimizer_dtype=bf16");
  }
}

// ---- Megatron-Core

// Where verl's engine hands settings on to Megatron-Core's configurations under their own names.
constexpr std::string_view kHandedOn[] = {"override_transformer_config.", "override_ddp_config.",
                                          "override_optimizer_config.",
                                          "override_mcore_model_config.", ""};

std::string megatron_key(std::string_view path) {
  for (const std::string_view section : kHandedOn) {
    if (path.starts_with(section)) {
      path.remove_prefix(section.size());
      break;
    }
  }
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"num_layers_in_first_pipeline_stage", "decoder_first_pipeline_num_layers"},
      {"num_layers_in_last_pipeline_stage", "decoder_last_pipeline_num_layers"}};
  for (const auto& [from, to] : kNames) {
    path = path == from ? to : path;
  }
  return std::string(path);
}

void add_megatron_settings(const VerlRun& run, LaunchConfig& config) {
  const std::string_view owners[] = {run.rollouts ? "actor_rollout_ref.actor.megatron." : "engine.",
                                     run.rollouts ? "actor_rollout_ref.actor.optim." : "optim."};
  for (const LaunchSetting& setting : run.said.settings) {
    for (const std::string_view owner : owners) {
      if (setting.key.starts_with(owner)) {
        LaunchSetting megatrons = setting;
        megatrons.key = megatron_key(std::string_view(setting.key).substr(owner.size()));
        config.settings.push_back(std::move(megatrons));
      }
    }
  }
}

// megatron_utils.py get_model: gradients are reduced in fp32 and beside nothing unless told.
void read_megatron_engine(const VerlRun& run, LaunchConfig& config) {
  config.format = LaunchFormat::kMegatron;
  config.program = MegatronProgram::kVerl;
  add_megatron_settings(run, config);
  for (const auto& [key, value] : {std::pair{"sequence_parallel", "true"},
                                   {"use_distributed_optimizer", "true"},
                                   {"attention_dropout", "0"},
                                   {"hidden_dropout", "0"}}) {
    set_default(config, key, value);
  }
  if (is_on(config, "use_megatron_fsdp")) {
    set_default(config, "data_parallel_sharding_strategy", "optim_grads_params");
    set_default(config, "overlap_grad_reduce", "true");
  } else if (find_variable(config, "CUDA_DEVICE_MAX_CONNECTIONS") == nullptr) {
    config.environment.push_back({"CUDA_DEVICE_MAX_CONNECTIONS", "1", "verl's workers"});
  }
  if (!switch_setting(config, "grad_reduce_in_fp32").value_or(true)) {
    set_default(config, "grad_reduce_in_bf16", "true");
  }
  read_megatron_layout(config);
}

// ---- batch and lengths

// Sets the step of so many samples of at most `longest` tokens each.
void read_step(const VerlRun& run, std::int64_t samples, std::int64_t longest,
               LaunchConfig& config) {
  const LaunchConfig& said = run.said;
  const LaunchSetting* dynamic = run.rollouts ? engine_setting(run, "use_dynamic_bsz")
                                              : run_setting(said, "data.use_dynamic_bsz");
  const LaunchSetting* tokens = run.rollouts ? engine_setting(run, "ppo_max_token_len_per_gpu")
                                             : run_setting(said, "data.max_token_len_per_gpu");
  if (says(said, dynamic, !run.rollouts && !run.older)) {
    const std::int64_t pack = count_of(said, tokens, run.rollouts ? 16384 : 8192);
    const RolloutPacks packs =
        packs_of({.step = samples,
                  .longest = longest,
                  .ranks = data_ranks(config),
                  .dealt = true,
                  .divisor = config.layout.virtual_pipeline.value_or(1) > 1
                                 ? config.layout.pipeline.value_or(1)
                                 : 1,
                  .by = dynamic == nullptr ? "data.use_dynamic_bsz" : dynamic->spelled,
                  .limit = run.easy       ? "micro_batch_size_per_device_for_update full samples"
                           : run.rollouts ? "ppo_max_token_len_per_gpu"
                                          : "max_token_len_per_gpu"},
                 pack * config.layout.context.value_or(1), config);
    config.sequence = packs.sequence;
    config.layout.micro_batch = 1;
    config.global_batch = packs.batch;
    return;
  }
  config.sequence = longest;
  config.global_batch = samples;
  const LaunchSetting* each = run.rollouts ? engine_setting(run, "ppo_micro_batch_size_per_gpu")
                                           : run_setting(said, "data.micro_batch_size_per_gpu");
  const LaunchSetting* all = run.rollouts ? engine_setting(run, "ppo_micro_batch_size")
                                          : run_setting(said, "data.micro_batch_size");
  if (each == nullptr && all != nullptr) {
    config.layout.micro_batch =
        std::max<std::int64_t>(1, count_of(said, all, 1) / data_ranks(config));
  } else if (each != nullptr || !run.rollouts) {
    config.layout.micro_batch = count_of(said, each, 4);
  } else if (config.foreign.empty() && config.unset.empty()) {
    throw Error(config.source,
                "sets no actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu, without which verl "
                "does not start; that, or use_dynamic_bsz=True with ppo_max_token_len_per_gpu, "
                "would be right");
  }
  note_unpacked(config);
}

void read_actor_step(const VerlRun& run, LaunchConfig& config) {
  const LaunchConfig& said = run.said;
  const std::int64_t answers = run_count(said, "actor_rollout_ref.rollout.n").value_or(1);
  const std::int64_t prompts =
      run_count(said, "actor_rollout_ref.actor.ppo_mini_batch_size").value_or(256);
  const LaunchSetting* drawn = run_setting(said, "data.train_batch_size");
  const std::int64_t rollout =  // 0: rollouts run beside the training, sample by sample
      drawn == nullptr ? 1024 : integer_setting(said, drawn->key, 0).value_or(0);
  const std::int64_t longest = run_count(said, "data.max_prompt_length").value_or(512) +
                               run_count(said, "data.max_response_length").value_or(512);
  read_step(run, prompts * answers, longest, config);
  note_actor(config, static_cast<double>(rollout) / static_cast<double>(prompts) *
                         static_cast<double>(
                             run_count(said, "actor_rollout_ref.actor.ppo_epochs").value_or(1)));
}

// ---- what lies beside the actor

bool moves_away(const VerlRun& run, const std::string& owner) {
  const auto on = [&](const std::string& key) {
    return says(run.said, run_setting(run.said, owner + key));
  };
  return on("param_offload") && on("optimizer_offload");
}

void note_neighbours(const VerlRun& run, bool megatron, LaunchConfig& config) {
  const LaunchConfig& said = run.said;
  const auto on = [&](std::string_view names, bool otherwise = false) {
    return says(said, run_setting(said, names), otherwise);
  };
  const bool colocated = on("actor_rollout_ref.hybrid_engine", true);
  if (colocated && !on("actor_rollout_ref.rollout.free_cache_engine", true)) {
    note_beside(config, "the rollout engine (free_cache_engine=False keeps its memory)");
  } else if (colocated) {
    config.remarks.emplace_back(
        "the rollout engine sleeps while the actor trains: what it keeps on the GPU then is not "
        "counted");
  }
  const bool critic =
      on("critic.enable", run_text(said, "algorithm.adv_estimator", "gae") == "gae");
  if (critic && !moves_away(run, "critic.model.fsdp_config.") &&
      !moves_away(run, "critic.megatron.") && !moves_away(run, "critic.fsdp.")) {
    note_beside(config, "the critic");
  }
  const bool judged = on("actor_rollout_ref.actor.use_kl_loss") || on("algorithm.use_kl_in_reward");
  const bool moved = on("actor_rollout_ref.ref.megatron.param_offload",
                        on("actor_rollout_ref.actor.megatron.param_offload"));
  if (megatron && judged && !moved && config.training.rank == 0) {
    note_beside(config, "the reference model");  // FSDP's lies on the host
  }
  const bool pool =
      on("reward_model.enable_resource_pool reward.reward_model.enable_resource_pool");
  if (on("reward_model.enable reward.reward_model.enable") && !pool) {
    note_beside(config, "the reward model");
  }
}

// ---- the whole

// Parameters and states that verl moves to the host between phases are back while the actor trains.
void note_moves(const VerlRun& run, LaunchConfig& config) {
  if (!config.offload.empty()) {
    return;
  }
  for (const char* key : {"param_offload", "optimizer_offload"}) {
    const LaunchSetting* moves = engine_setting(run, key);
    if (says(run.said, moves)) {
      config.remarks.push_back(
          fmt::format("{}: what it moves to the host is back on the GPU while the actor trains",
                      moves->spelled));
      return;
    }
  }
}

void read_model_of_run(const VerlRun& run, LaunchConfig& config) {
  const LaunchConfig& said = run.said;
  if (const LaunchSetting* model =
          run_setting(said, run.rollouts ? "actor_rollout_ref.model.path"
                                         : "model.path model.partial_pretrain")) {
    take_model(model->value, config);
  }
  const LaunchSetting* rank = model_setting(run, "lora_rank");
  rank = rank != nullptr ? rank : model_setting(run, "lora.rank");
  config.training.rank =
      rank == nullptr ? 0 : integer_setting(said, rank->key, 0, 100'000).value_or(0);
  const LaunchSetting* targets = model_setting(run, "target_modules");
  targets = targets != nullptr ? targets : model_setting(run, "lora.target_modules");
  if (config.training.rank > 0 && targets != nullptr) {
    take_targets(targets->spelled, targets->value, config);
  }
}

// FusedLinearForPPO takes 512 tokens at a time (utils/experimental/torch_functional.py).
void read_loss(const VerlRun& run, LaunchConfig& config) {
  constexpr std::int64_t kTokens = 512;
  if (says(run.said, model_setting(run, "use_fused_kernels"))) {
    const std::int64_t tokens = config.sequence.value_or(1) *
                                config.layout.micro_batch.value_or(1) /
                                config.layout.context.value_or(1);
    config.choices.push_back(
        fmt::format("loss_chunks={}", std::clamp<std::int64_t>(tokens / kTokens, 1, 1'000'000)));
  }
}

// How many GPUs there are; what a variable leaves open is left to the cluster.
void read_gpus_of_run(const VerlRun& run, LaunchConfig& config) {
  const auto is_open = [&](std::string_view key) {
    return run_setting(run.said, key) == nullptr &&
           std::find(run.open.begin(), run.open.end(), key) != run.open.end();
  };
  if (!run.rollouts || is_open("trainer.nnodes") || is_open("trainer.n_gpus_per_node")) {
    return;
  }
  const std::int64_t hosts = run_count(run.said, "trainer.nnodes").value_or(1);
  config.gpus_per_node = run_count(run.said, "trainer.n_gpus_per_node").value_or(8);
  config.gpus = hosts * *config.gpus_per_node;
}

LaunchConfig config_of(const VerlRun& run) {
  LaunchConfig config = run.said;
  config.recompute_is_open = false;
  read_gpus_of_run(run, config);
  read_model_of_run(run, config);
  const std::string strategy = strategy_of(run);
  if (strategy == "megatron") {
    read_megatron_engine(run, config);
  } else if (strategy == "fsdp" || strategy == "fsdp2") {
    read_fsdp(run, strategy, config);
  } else {
    throw Error(config.source,
                fmt::format("trains with {}'s {} engine, which is not read; its model, batch and "
                            "sharding as options of `trireme estimate` would be right",
                            run.sky ? "SkyRL" : "verl", strategy));
  }
  if (run.rollouts) {
    read_actor_step(run, config);
    note_moves(run, config);
    note_neighbours(run, strategy == "megatron", config);
  } else {
    read_step(run, run_count(run.said, "data.train_batch_size").value_or(256),
              run_count(run.said, "data.max_length").value_or(1024), config);
  }
  read_loss(run, config);
  put_program(run.easy ? "easyr1" : run.sky ? "skyrl" : run.rollouts ? "verl" : "verl-sft", config);
  return config;
}

}  // namespace

LaunchConfig read_verl(std::string_view text, const std::string& source,
                       const std::vector<std::string>& arguments, const LaunchReading& reading) {
  return config_of(read_verl_run(text, source, arguments, reading));
}

}  // namespace trireme::planner
