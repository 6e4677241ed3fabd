// What Megatron-LM's settings say of framework, batch and layout. Defaults are arguments.py's.
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "planner/launch/launch_layout.h"
#include "planner/launch/megatron/megatron.h"

namespace trireme::planner {
namespace {

std::optional<std::int64_t> degree(const LaunchConfig& config,
                                   std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (const auto value = integer_setting(config, key, 1, 1'000'000)) {
      return value;
    }
  }
  return {};
}

bool is_classic(const LaunchConfig& config) {
  return text_setting(config, "transformer_impl") == "local" || has_setting(config, "DDP_impl") ||
         has_setting(config, "checkpoint_activations") ||
         has_setting(config, "model_parallel_size");
}

void choose(LaunchConfig& config, const std::string& key, bool value) {
  config.choices.push_back(fmt::format("{}={}", key, value));
}

// What Megatron-Bridge's recipes switch on unless told: the distributed optimizer and both
// overlaps.
bool is_recipe(const LaunchConfig& config) {
  return config.format == LaunchFormat::kMegatronBridge && !config.model;
}

// NeMo 1: model.optim.name=distributed_fused_adam.
bool has_nemo_optimizer(const LaunchConfig& config) {
  return std::any_of(config.settings.begin(), config.settings.end(), [](const auto& setting) {
    return setting.spelled == "model.optim.name" && setting.value.starts_with("distributed_");
  });
}

const char* precision_of(const LaunchConfig& config) {
  const bool fp8 = has_setting(config, "fp8_format") || has_setting(config, "fp8") ||
                   is_on(config, "fp8_hybrid") || is_on(config, "fp8_e4m3");
  const std::string mixed = text_setting(config, "mixed_precision");  // Megatron-Bridge's recipes
  const LaunchSetting* recipe = find_setting(config, "mixed_precision");
  if (recipe != nullptr && recipe->value == "None") {
    return "fp32";
  }
  if (fp8 || mixed.find("fp8") != std::string::npos) {
    return "fp8";
  }
  if (is_on(config, "fp16") || mixed.find("fp16") != std::string::npos) {
    return "fp16";
  }
  const bool bf16 = is_on(config, "bf16") || config.format == LaunchFormat::kMegatronBridge ||
                    config.program == MegatronProgram::kSwift ||
                    config.program == MegatronProgram::kSlime ||
                    config.program == MegatronProgram::kVerl;
  return bf16 ? "bf16" : "fp32";
}

void read_precision(LaunchConfig& config) {
  config.precision = precision_of(config);
  const std::string optimizer = text_setting(config, "optimizer", "adam");
  config.optimizer = optimizer == "sgd" ? "sgd" : "adam";
  if (optimizer != "adam" && optimizer != "sgd") {
    config.remarks.push_back(fmt::format("optimizer {} is modelled as adam", optimizer));
  }
  // A flag's word, or Megatron-Bridge's AttnBackend.unfused.
  const bool unfused = text_setting(config, "attention_backend").ends_with("unfused") ||
                       (is_classic(config) && !is_on(config, "use_flash_attn"));
  config.attention = unfused ? "unfused" : "flash";
}

// Megatron-Bridge's recipes with 8-bit products gather 8-bit parameters, but for those of
// subchannels (training/mixed_precision.py).
bool recipe_gathers_fp8(const LaunchConfig& config) {
  const std::string recipe = text_setting(config, "mixed_precision");
  return config.format == LaunchFormat::kMegatronBridge &&
         recipe.find("fp8") != std::string::npos && recipe.find("subchannel") == std::string::npos;
}

void read_data_types(LaunchConfig& config) {
  const bool fp16_gradients =
      is_on(config, "fp16") && !is_on(config, "accumulate_allreduce_grads_in_fp32");
  if (is_on(config, "grad_reduce_in_bf16")) {
    config.choices.emplace_back("grad_dtype=bf16");
  } else if (fp16_gradients) {
    config.choices.emplace_back("grad_dtype=fp16");
  }
  if (is_on(config, "use_precision_aware_optimizer")) {
    const auto half = [&](const char* key) {
      const std::string type = text_setting(config, key, "fp32");
      return type == "bf16" || type == "fp16" || type.ends_with("float16") ||
             type.ends_with("half");
    };
    const auto eighth = [&](const char* key) {
      const std::string type = text_setting(config, key, "fp32");
      return type == "fp8" || type.ends_with("uint8");
    };
    if (config.optimizer == "adam" && eighth("exp_avg_dtype") && eighth("exp_avg_sq_dtype")) {
      config.optimizer = "adam8bit";
    }
    if (half("exp_avg_dtype") && half("exp_avg_sq_dtype")) {
      config.choices.emplace_back("optimizer_dtype=bf16");
    }
    // store_param_remainders, which is on since Megatron-Core 0.12
    const bool remainders = config.precision != "fp16" && config.precision != "fp32" &&
                            config.optimizer != "sgd" && config.framework == "megatron";
    if (half("main_params_dtype") || remainders) {
      config.choices.emplace_back("master_bytes=2");
    }
    if (half("main_grads_dtype")) {
      config.choices.emplace_back("gradient_bytes=2");
    }
  }
  if (switch_setting(config, "fp8_param_gather").value_or(recipe_gathers_fp8(config))) {
    config.choices.emplace_back("fp8_parameters=true");
  }
}

void read_choices(LaunchConfig& config) {
  if (is_classic(config)) {
    config.choices.emplace_back("implementation=local");
  }
  if (config.framework != "fsdp2") {
    for (const char* overlap : {"overlap_grad_reduce", "overlap_param_gather"}) {
      choose(config, overlap, switch_setting(config, overlap).value_or(is_recipe(config)));
    }
  }
  choose(config, "tp_comm_overlap", is_on(config, "tp_comm_overlap"));
  if (has_setting(config, "moe_token_dispatcher_type")) {
    choose(config, "dispatch_once",
           text_setting(config, "moe_token_dispatcher_type", "") == "flex");
  }
  if (is_on(config, "overlap_moe_expert_parallel_comm")) {
    choose(config, "expert_overlap", true);
  }
  if (is_on(config, "moe_router_force_load_balancing")) {
    choose(config, "even_routing", true);  // benchmarks': tokens are dealt out at random
  }
  if (is_on(config, "cross_entropy_loss_fusion")) {
    choose(config, "cross_entropy_fusion", true);
  }
  // Transformer Engine's writes the gradient over the 16-bit logits; the native one, which is what
  // nobody who says nothing gets otherwise, has fp32 copies of them.
  const std::string loss = text_setting(config, "cross_entropy_fusion_impl", "");
  if (!loss.empty()) {
    config.choices.emplace_back(loss == "te" ? "fused_logit_bytes=2" : "fused_logit_bytes=12");
  }
  const bool fused = !is_on(config, "no_gradient_accumulation_fusion") &&
                     switch_setting(config, "gradient_accumulation_fusion").value_or(true);
  choose(config, "gradient_accumulation_fusion", fused);
  if (is_on(config, "no_masked_softmax_fusion")) {
    choose(config, fused ? "masked_softmax_fusion" : "apex", false);
  }
  if (is_on(config, "no_overlap_p2p_communication")) {
    choose(config, "p2p_overlap_interleaved", false);
  }
  // arguments.py drops 0.1 of both unless told; Megatron-Bridge's recipes drop nothing.
  const double usual = config.format == LaunchFormat::kMegatron ? 0.1 : 0.0;
  const double dropout = std::max(number_setting(config, "hidden_dropout").value_or(usual),
                                  number_setting(config, "attention_dropout").value_or(usual));
  config.choices.push_back(fmt::format("dropout={}", dropout));
  if (integer_setting(config, "make_vocab_size_divisible_by").value_or(128) == 1 ||
      has_setting(config, "padded_vocab_size")) {
    choose(config, "pad_vocabulary", false);
  }
  read_data_types(config);
  for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {  // PyTorch 2.9's
    const LaunchSetting* variable = find_variable(config, name);
    if (variable != nullptr &&
        variable->value.find("expandable_segments:True") != std::string::npos) {
      choose(config, "expandable_segments", true);
    }
  }
  if (is_on(config, "deterministic_mode")) {
    choose(config, "deterministic", true);
  }
  if (const LaunchSetting* variable = find_variable(config, "CUDA_LAUNCH_BLOCKING");
      variable != nullptr && variable->value == "1") {
    choose(config, "launch_blocking", true);
  }
}

void read_sharding(LaunchConfig& config) {
  LaunchLayout& layout = config.layout;
  if (is_on(config, "use_torch_fsdp2")) {
    config.framework = "fsdp2";
    layout.sharding = Sharding::kFull;
    layout.reshard_after_forward = !is_on(config, "torch_fsdp2_no_reshard_after_forward");
    return;
  }
  if (is_on(config, "use_megatron_fsdp") || is_on(config, "use_custom_fsdp")) {
    config.framework = "megatron-fsdp";
    const std::string strategy =
        text_setting(config, "data_parallel_sharding_strategy", "no_shard");
    layout.sharding = strategy == "optim_grads_params" ? Sharding::kFull
                      : strategy == "optim_grads"      ? Sharding::kGradients
                      : strategy == "optim"            ? Sharding::kOptimizer
                                                       : Sharding::kNone;
  } else {
    config.framework = "megatron";
    // DeepSpeed under Megatron: its bf16 optimizer shards the states whatever the ZeRO stage.
    const bool zero =
        has_setting(config, "deepspeed") &&
        (is_on(config, "bf16") || integer_setting(config, "zero_stage", 0, 3).value_or(0) > 0);
    layout.sharding = zero || switch_setting(config, "use_distributed_optimizer")
                                  .value_or(is_recipe(config) || has_nemo_optimizer(config))
                          ? Sharding::kOptimizer
                          : Sharding::kNone;
  }
  if (layout.sharding != Sharding::kNone) {
    layout.replicas = degree(config, {"num_distributed_optimizer_instances"}).value_or(1);
  }
}

void read_recompute(LaunchConfig& config) {
  LaunchLayout& layout = config.layout;
  // NeMo 1 calls it model.activations_checkpoint_granularity, and takes a method beside it.
  const std::string nemo = text_setting(config, "activations_checkpoint_granularity");
  std::string granularity = text_setting(config, "recompute_granularity", nemo);
  if (is_on(config, "recompute_activations")) {
    granularity = "selective";
  }
  const bool old = is_on(config, "checkpoint_activations") ||
                   (has_setting(config, "activations_checkpoint_method") && nemo.empty());
  if (old) {
    granularity = "full";
  }
  if (granularity == "full") {
    const std::string method = text_setting(config, "recompute_method",
                                            text_setting(config, "activations_checkpoint_method"));
    if (method == "block" && text_setting(config, "recompute_num_layers") == "0") {
      return;  // the first 0 layers of each stage
    }
    layout.recompute = Recompute::kFull;
    const auto layers =
        degree(config, {"recompute_num_layers", "activations_checkpoint_num_layers"});
    if (method == "block" && layers) {
      layout.recompute_layers = *layers;
    } else if (layers.value_or(1) > 1) {
      config.recompute_together = *layers;
      config.remarks.push_back(fmt::format(
          "uniform recompute keeps the input of every {} layers; modelled as every layer's",
          *layers));
    }
  } else if (granularity == "selective") {
    layout.recompute = Recompute::kSelective;
    if (has_setting(config, "recompute_modules")) {
      const LaunchSetting& setting = *find_setting(config, "recompute_modules");
      try {
        layout.recompute_modules = recompute_modules_in(setting.value);
      } catch (const Error& error) {
        throw Error(where_of(config, setting), error.what());
      }
    }
  } else if (!granularity.empty()) {
    const LaunchSetting& setting = *find_setting(
        config, nemo.empty() ? "recompute_granularity" : "activations_checkpoint_granularity");
    throw Error(
        where_of(config, setting),
        fmt::format("{} is '{}'; full or selective would be right", setting.spelled, granularity));
  }
}

void read_pipeline(LaunchConfig& config) {
  LaunchLayout& layout = config.layout;
  layout.virtual_pipeline = degree(
      config, {"num_virtual_stages_per_pipeline_rank", "virtual_pipeline_model_parallel_size"});
  layout.layers_per_virtual_stage =
      degree(config, {"num_layers_per_virtual_pipeline_stage"}).value_or(0);
  layout.first_stage_layers = degree(config, {"decoder_first_pipeline_num_layers"}).value_or(0);
  layout.last_stage_layers = degree(config, {"decoder_last_pipeline_num_layers"}).value_or(0);
  // Megatron-DeepSpeed's type:transformer|embedding counts the embedding and the head.
  const bool counts_ends =
      text_setting(config, "pp_partition_method").find("embedding") != std::string::npos;
  layout.first_chunk_less =
      counts_ends || is_on(config, "account_for_embedding_in_pipeline_split") ? 1 : 0;
  layout.last_chunk_less =
      counts_ends || is_on(config, "account_for_loss_in_pipeline_split") ? 1 : 0;
  if (has_setting(config, "pipeline_model_parallel_layout")) {
    const LaunchSetting& setting = *find_setting(config, "pipeline_model_parallel_layout");
    if (setting.value.find_first_of("[]") == std::string::npos) {
      layout.stage_layers = read_pipeline_pattern(config, setting);
      layout.prediction_apart = has_prediction_apart(config, setting);
    } else {
      config.remarks.push_back(fmt::format(
          "{} as a list is not read; the layers are taken as spread evenly", setting.spelled));
    }
    const auto stages = static_cast<std::int64_t>(layout.stage_layers.size());
    const std::int64_t pipeline = layout.pipeline.value_or(1);
    if (stages > pipeline && stages % pipeline == 0 && !layout.virtual_pipeline) {
      layout.virtual_pipeline = stages / pipeline;
    }
  }
}

void read_context_exchange(LaunchConfig& config) {
  if (!has_setting(config, "cp_comm_type") || config.layout.context.value_or(1) == 1) {
    return;
  }
  const LaunchSetting& setting = *find_setting(config, "cp_comm_type");
  const bool ring = setting.value.find("p2p") != std::string::npos;
  const bool gathers = setting.value.find("all_gather") != std::string::npos;
  const bool exchanges = setting.value.find("a2a") != std::string::npos;
  if (!ring && !gathers) {
    config.choices.emplace_back("context_all_to_all=true");
  } else if (!ring && !exchanges) {
    config.choices.emplace_back("context_gather=true");
  } else if (gathers || exchanges) {
    config.remarks.push_back(fmt::format("{} {} is modelled as p2p, a ring of keys and values",
                                         setting.spelled, setting.value));
  }
}

// Optimizer states on the host, all or a share of them; the input of some layers.
void read_offload(LaunchConfig& config) {
  if (is_on(config, "optimizer_cpu_offload")) {
    const double share =
        number_setting(config, "optimizer_offload_fraction")
            .value_or(number_setting(config, "optimizer_cpu_offload_fraction").value_or(1));
    if (share > 0) {
      config.offload.push_back(fmt::format("optimizer={}", std::min(share, 1.0)));
    }
  }
  const auto layers = integer_setting(config, "cpu_offloading_num_layers", 0, 100'000);
  const auto all = integer_setting(config, "num_layers", 1, 100'000);
  if (offloads_layers(config) && layers.value_or(0) > 0 && all) {
    config.offload.push_back(fmt::format(
        "activations={}", std::min(1.0, static_cast<double>(*layers) / static_cast<double>(*all))));
  }
  if (is_on(config, "fine_grained_activation_offloading")) {
    config.unmodelled.push_back(
        find_setting(config, "fine_grained_activation_offloading")->spelled);
  }
}

}  // namespace

bool leaves_degrees_to_recipe(const LaunchConfig& config) {
  const LaunchLayout& layout = config.layout;
  return is_recipe(config) && has_setting(config, "recipe") && config.gpus.value_or(2) > 1 &&
         !layout.tensor && !layout.pipeline && !layout.context && !layout.expert;
}

void read_megatron_layout(LaunchConfig& config) {
  LaunchLayout& layout = config.layout;
  read_layout_fields(config, config.format);
  layout.tensor = layout.tensor ? layout.tensor : degree(config, {"model_parallel_size"});
  layout.micro_batch = layout.micro_batch ? layout.micro_batch : degree(config, {"batch_size"});
  layout.sequence_parallel = is_on(config, "sequence_parallel");
  layout.pipeline_before_data = is_on(config, "use_tp_pp_dp_mapping");
  config.sequence = degree(config, {"seq_length", "encoder_seq_length"});
  config.capacity_factor = number_setting(config, "moe_expert_capacity_factor");
  config.global_batch = degree(config, {"global_batch_size"});
  if (has_setting(config, "rampup_batch_size")) {
    config.remarks.emplace_back("the batch grows at first; what follows is for the whole one");
  }
  read_offload(config);
  read_sharding(config);
  read_recompute(config);
  read_pipeline(config);
  read_precision(config);
  read_choices(config);
  read_context_exchange(config);
  note_unmodelled(config);
  if (leaves_degrees_to_recipe(config)) {
    config.foreign.emplace_back(
        "what the recipe sets of degrees (model.tensor_model_parallel_size=N and its kin after -- "
        "say them)");
  }
}

}  // namespace trireme::planner
