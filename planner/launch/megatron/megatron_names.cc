// Which of Megatron-LM's settings are known and what for, and what an unknown flag was probably
// meant to be: its parser takes no abbreviations.
#include <algorithm>
#include <map>

#include "core/edits.h"
#include "planner/launch/function_spellings.h"
#include "planner/launch/megatron/megatron.h"

namespace trireme::planner {
namespace {

using enum MegatronUse;

// Read, and never written: flags with a value, switches, and what neither memory nor time depend
// on (learning, data, logging, saving).
constexpr std::string_view kValues =
    "encoder_seq_length padded_vocab_size tokenizer_type tokenizer_model model_parallel_size "
    "num_layers_per_virtual_pipeline_stage virtual_pipeline_model_parallel_size "
    "microbatch_group_size_per_virtual_pipeline_stage batch_size rampup_batch_size "
    "checkpoint_num_layers activations_checkpoint_method activations_checkpoint_granularity "
    "activations_checkpoint_num_layers fp8 DDP_impl main_grads_dtype "
    "main_params_dtype ddp_num_buckets hierarchical_context_parallel_sizes "
    "params_dtype zero_stage pp_partition_method pipeline_dtype "
    "optimizer_cpu_offload_fraction spec";
constexpr std::string_view kSwitches =
    "use_rotary_position_embeddings embed_layernorm "
    "overlap_param_gather_with_optimizer_step overlap_p2p_comm batch_p2p_comm "
    "overlap_p2p_communication_warmup_flush recompute_activations checkpoint_activations "
    "distribute_saved_activations distribute_checkpointed_activations use_custom_fsdp fp8_hybrid "
    "fp8_e4m3 accumulate_allreduce_grads_in_fp32 use_flash_attn gradient_accumulation_fusion "
    "fine_grained_activation_offloading moe_router_force_load_balancing "
    "defer_embedding_wgrad_compute use_nccl_ub fsdp_double_buffer "
    "nccl_ub fsdp_manual_registration hybrid_context_parallel calculate_per_token_loss "
    "average_in_collective ddp_average_in_collective align_param_gather "
    "reuse_grad_buf_for_mxfp8_param_ag decrease_batch_size_if_needed enable_cuda_graph "
    "use_cpu_initialization init_model_with_meta_device no_bias_swiglu_fusion "
    "standalone_embedding_stage use_mcore_models "
    "deepspeed";
constexpr std::string_view kHarmlessNames =
    "lr autocast_dtype min_lr weight_decay clip_grad "
    "train_samples seed data_path data_cache_path vocab_file merge_file split save load "
    "save_interval eval_interval eval_iters mock_data no_load_optim no_load_rng no_save_optim "
    "no_save_rng exit_interval exit_duration_in_mins distributed_backend rope_theta "
    ""
    "override_opt_param_scheduler finetune num_workers dataloader_type "
    "moe_router_dtype "
    "moe_router_bias_update_rate mtp_loss_scaling_factor "
    "initial_loss_scale loss_scale loss_scale_window min_loss_scale hysteresis "
    "no_create_attention_mask_in_dataloader dist_ckpt_format use_dist_ckpt auto_detect_ckpt_format "
    "async_save distributed_timeout_minutes exit_on_missing_checkpoint "
    "apply_query_key_layer_scaling attention_softmax_in_fp32 adam_beta1 adam_beta2 adam_eps "
    "no_check_for_nan_in_loss_and_grad check_for_nan_in_loss_and_grad init_method_xavier_uniform "
    "fp8_amax_history_len fp8_amax_compute_algo fp8_margin fp8_interval tiktoken_pattern "
    "tiktoken_num_special_tokens no_mmap_bin_files manual_gc manual_gc_interval timing_log_level "
    "reset_position_ids reset_attention_mask eod_mask_loss no_barrier_with_level_1_timing "
    "train_data_path valid_data_path test_data_path use_checkpoint_args "
    "no_async_tensor_model_parallel_allreduce";
constexpr std::string_view kHarmlessStarts =
    "lr_ log_ tensorboard_ wandb_ start_weight_decay end_weight_decay weight_decay_ ckpt_ profile "
    "save_ load_ adam_ no_log_ logging_ rerun_ inference_ eval_ data_args_ dataset_";

// Every name with what it is for; a row of the written ones first.
const std::vector<std::pair<std::string_view, MegatronUse>>& uses() {
  static const auto kUses = [] {
    std::vector<std::pair<std::string_view, MegatronUse>> all;
    for (const MegatronTopic& line : megatron_fields()) {
      for (const MegatronField& field : line) {
        if (!field.flag.empty()) {
          all.emplace_back(field.flag, field.use);
        }
      }
    }
    for (const auto& [names, use] :
         {std::pair{kValues, kValue}, {kSwitches, kSwitch}, {kHarmlessNames, kHarmless}}) {
      for (const std::string_view name : names_in(names)) {
        all.emplace_back(name, use);
      }
    }
    for (const FunctionName& each : function_settings_read()) {
      all.emplace_back(each.name, each.stands_alone ? kSwitch : kValue);
    }
    return all;
  }();
  return kUses;
}

// What other programs call the same thing.
constexpr std::pair<std::string_view, std::string_view> kNearNames[] = {
    {"tensor_model_parallel_size", "tp tp_size tensor_parallel tensor_parallel_degree"},
    {"pipeline_model_parallel_size", "pp pp_size pipeline_parallel pipeline_parallel_degree"},
    {"num_virtual_stages_per_pipeline_rank", "vp vpp"},
    {"context_parallel_size", "cp cp_size context_parallel"},
    {"expert_model_parallel_size", "ep ep_size expert_parallel"},
    {"expert_tensor_parallel_size", "etp"},
    {"sequence_parallel", "sp"},
    {"micro_batch_size", "mbs micro_batch micro_bs"},
    {"global_batch_size", "gbs global_batch global_bs"},
    {"seq_length", "seq seq_len seqlen sequence_length"},
    {"max_position_embeddings", "max_seq_len"},
    {"num_layers", "num_hidden_layers n_layers n_layer layers"},
    {"hidden_size", "hidden_dim"},
    {"num_attention_heads", "num_heads n_heads attention_heads"},
    {"num_query_groups", "num_kv_heads num_key_value_heads kv_heads"},
    {"ffn_hidden_size", "intermediate_size ffn_size"},
    {"kv_channels", "head_dim"},
    {"bf16", "use_bf16 bfloat16"},
    {"fp16", "use_fp16"},
    {"use_distributed_optimizer", "distributed_optimizer use_dist_optimizer"},
    {"recompute_granularity", "gradient_checkpointing activation_checkpointing"},
    {"use_flash_attn", "flash_attn"},
    {"rotary_base", "rope_theta"}};

// Flags of the parser that this program does not read and that are near to ones it does.
constexpr std::string_view kReal =
    "decoder_seq_length decoder_num_layers fp4_format fp4_param_gather fp4_recipe "
    "fp8_param init_method masked_softmax_fusion persist_layer_norm no_batch_p2p_comm "
    "no_align_param_gather fp4 in_channels num_labels num_position_embeddings patch_size qk_clip "
    "tp_comm_overlap_ag tp_comm_overlap_rs";

// tensor_parallel_size of tensor_model_parallel_size
bool leaves_words_out(std::string_view key, std::string_view whole) {
  const auto few = split_at(key, '_');
  const auto all = split_at(whole, '_');
  std::size_t at = 0;
  for (const std::string_view part : all) {
    at += at < few.size() && part == few[at] ? 1U : 0U;
  }
  return few.size() >= 2 && at == few.size();
}

}  // namespace

MegatronUse use_of_megatron_setting(std::string_view key) {
  const auto found =
      std::find_if(uses().begin(), uses().end(), [&](const auto& use) { return use.first == key; });
  if (found != uses().end()) {
    return found->second;
  }
  const std::vector<std::string_view> starts = names_in(kHarmlessStarts);
  return std::any_of(starts.begin(), starts.end(),
                     [&](std::string_view start) { return key.starts_with(start); })
             ? kHarmless
             : kUnknown;
}

bool reads_megatron_setting(std::string_view key) {
  const MegatronUse use = use_of_megatron_setting(key);
  return use != kUnknown && use != kHarmless;
}

bool decides_memory_or_time(std::string_view key) {
  constexpr std::string_view kOthers =
      "tokenizer_type tokenizer_model vocab_size padded_vocab_size max_position_embeddings spec "
      "make_vocab_size_divisible_by";
  return reads_megatron_setting(key) && !is_among(kOthers, key);
}

std::vector<std::string_view> megatron_settings_read() {
  std::vector<std::string_view> names;
  for (const auto& [name, use] : uses()) {
    if (use != kHarmless) {
      names.push_back(name);
    }
  }
  return names;
}

bool takes_value(std::string_view key) {
  return use_of_megatron_setting(key) == kValue;
}

bool is_switch(std::string_view key) {
  const MegatronUse use = use_of_megatron_setting(key);
  return use == kSwitch || use == kOpposite || key.starts_with("no_") || key.starts_with("use_");
}

const MegatronField* renamed_by_bridge(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('.') + 1);
  for (const MegatronTopic& line : megatron_fields()) {
    for (const MegatronField& field : line) {
      if (!field.flag.empty() && field.bridge.find('.') != std::string_view::npos &&
          field.bridge.substr(field.bridge.rfind('.') + 1) == name) {
        return field.flag == name ? nullptr : &field;
      }
    }
  }
  return nullptr;
}

std::string slip_of_megatron_setting(std::string_view key) {
  std::string_view best;
  for (const std::string_view name : megatron_settings_read()) {
    if (is_a_slip(key, name) && !is_among(kReal, key) &&
        (best.empty() || edits_between(key, name) < edits_between(key, best))) {
      best = name;
    }
  }
  return std::string(best);
}

std::string near_megatron_flag(std::string_view key) {
  if (is_among(kReal, key)) {
    return {};
  }
  for (const auto& [flag, names] : kNearNames) {
    if (is_among(names, key)) {
      return std::string(flag);
    }
  }
  if (std::string slip = slip_of_megatron_setting(key); !slip.empty()) {
    return slip;
  }
  std::string_view longer;
  for (const std::string_view name : megatron_settings_read()) {
    const bool starts = key.size() >= 6 && name.starts_with(key);
    if ((starts || leaves_words_out(key, name)) &&
        (longer.empty() || name.size() < longer.size())) {
      longer = name;
    }
  }
  return std::string(longer);
}

}  // namespace trireme::planner
