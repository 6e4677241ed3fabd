// Words that a framework takes for a setting, and no others: one table for all formats. Sources:
// Megatron-LM's choices= (training/arguments.py) and Literals of core's configurations, those of
// older and newer releases together; Megatron-Bridge's training/mixed_precision.py; torchtitan
// v0.2.2 (config/job_config.py and the code that reads it); DeepSpeed edaa7221 runtime/config.py;
// accelerate 16cb6eb8 utils/dataclasses.py and utils/launch.py.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/edits.h"
#include "planner/launch/field_table.h"
#include "planner/start/launch_rules.h"

namespace trireme::planner {
namespace {

using enum LaunchFormat;

enum class Care : std::uint8_t {
  kExact,
  kAnyCase,     // the program compares without regard to case
  kOpen,        // so too, and others may be registered: only a slip of a known word is an error
  kRegistered,  // others are registered by code of one's own alone: a warning
  kNumber,      // of a flag with type=float that nothing here reads
  kWhole,       // the same with type=int
};

struct Row {
  LaunchFormat format;
  std::string_view key, words;
  Care care = Care::kExact;
};

constexpr Row kRows[] = {
    // Megatron-LM; Megatron-Bridge, whose fields have the same names, is held to those above the
    // line.
    {kMegatron, "attention_backend", "flash fused unfused local auto"},
    {kMegatron, "moe_token_dispatcher_type", "allgather alltoall alltoall_seq flex"},
    {kMegatron, "normalization", "LayerNorm RMSNorm"},
    {kMegatron, "data_parallel_sharding_strategy", "no_shard optim optim_grads optim_grads_params"},
    {kMegatron, "fp8", "e4m3 hybrid None null"},
    {kMegatron, "fp8_recipe", "tensorwise delayed mxfp8 blockwise custom"},
    {kMegatron, "cross_entropy_fusion_impl", "native te"},
    {kMegatron, "recompute_granularity", "full selective None null"},
    {kMegatron, "recompute_method", "uniform block None null"},
    {kMegatron, "fp8_amax_compute_algo", "most_recent max"},
    {kMegatron, "moe_token_drop_policy", "probs position"},
    {kMegatron, "softmax_type", "vanilla off-by-one learnable"},
    {kMegatron, "optimizer", "adam sgd muon dist_muon lion soap adaptive_muon", Care::kOpen},
    {kMegatron, "moe_router_load_balancing_type",
     "aux_loss seq_aux_loss global_aux_loss sinkhorn quantile_balancing none None", Care::kOpen},
    {kMegatron, "moe_router_score_function", "softmax sigmoid sqrtsoftplus", Care::kOpen},
    {kMegatron, "moe_flex_dispatcher_backend", "deepep hybridep ncclep", Care::kOpen},
    {kMegatron, "cp_comm_type", "p2p all_gather a2a a2a+p2p", Care::kOpen},
    {kMegatron, "cuda_graph_impl", "none local transformer_engine full_iteration", Care::kOpen},
    {kMegatron, "ckpt_format", "torch torch_dist torch_dcp fsdp_dtensor zarr", Care::kOpen},
    {kMegatron, "lr_decay_style", "constant linear cosine inverse-square-root WSD", Care::kOpen},
    {kMegatronBridge, "mixed_precision",
     "bf16_mixed fp16_mixed bf16_with_fp8_delayed_scaling_mixed "
     "fp16_with_fp8_delayed_scaling_mixed bf16_with_mxfp8_mixed fp16_with_mxfp8_mixed "
     "bf16_with_fp8_current_scaling_mixed nemotron_h_bf16_with_fp8_current_scaling_mixed "
     "nanov2_bf16_with_fp8_current_scaling_mixed fp16_with_fp8_current_scaling_mixed "
     "bf16_with_fp8_subchannel_scaling_mixed fp16_with_fp8_subchannel_scaling_mixed "
     "bf16_with_nvfp4_mixed nemotron_3_super_bf16_with_nvfp4_mixed"},
    {kMegatron, "lr", "1e-4", Care::kNumber},
    {kMegatron, "min_lr", "1e-5", Care::kNumber},
    {kMegatron, "weight_decay", "0.1", Care::kNumber},
    {kMegatron, "adam_beta1", "0.9", Care::kNumber},
    {kMegatron, "adam_beta2", "0.95", Care::kNumber},
    {kMegatron, "adam_eps", "1e-8", Care::kNumber},
    {kMegatron, "clip_grad", "1.0", Care::kNumber},
    {kMegatron, "init_method_std", "0.02", Care::kNumber},
    {kMegatron, "lr_warmup_fraction", "0.01", Care::kNumber},
    {kMegatron, "train_iters", "500000", Care::kWhole},
    {kMegatron, "lr_warmup_iters", "2000", Care::kWhole},
    {kMegatron, "lr_decay_iters", "430000", Care::kWhole},
    {kMegatron, "eval_iters", "10", Care::kWhole},
    {kMegatron, "eval_interval", "1000", Care::kWhole},
    {kMegatron, "save_interval", "1000", Care::kWhole},
    {kMegatron, "log_interval", "100", Care::kWhole},
    {kMegatron, "seed", "1234", Care::kWhole},
    {kMegatron, "num_workers", "2", Care::kWhole},
    {kMegatron, "position_embedding_type", "learned_absolute rope mrope yarn relative alibi none"},
    {kMegatron, "fp8_format", "e4m3 hybrid"},
    {kMegatron, "transformer_impl", "local transformer_engine inference_optimized"},
    {kMegatron, "main_grads_dtype", "fp32 bf16"},
    {kMegatron, "main_params_dtype", "fp32 fp16"},
    {kMegatron, "exp_avg_dtype", "fp32 fp16 bf16 fp8"},
    {kMegatron, "exp_avg_sq_dtype", "fp32 fp16 bf16 fp8"},
    {kMegatron, "rope_type", "rope yarn"},
    {kMegatron, "dataloader_type", "single cyclic external batch", Care::kOpen},
    {kMegatron, "distributed_backend", "nccl gloo"},

    {kTorchtitan, "optimizer.name", "Adam AdamW"},
    {kTorchtitan, "optimizer.implementation", "for-loop foreach fused"},
    {kTorchtitan, "lr_scheduler.decay_type", "linear sqrt cosine"},
    {kTorchtitan, "training.dtype", "bfloat16 float16 float32"},
    {kTorchtitan, "training.mixed_precision_param", "bfloat16 float16 float32"},
    {kTorchtitan, "training.mixed_precision_reduce", "bfloat16 float16 float32"},
    {kTorchtitan, "parallelism.fsdp_reshard_after_forward", "default always never"},
    {kTorchtitan, "parallelism.context_parallel_rotate_method", "allgather alltoall"},
    {kTorchtitan, "parallelism.expert_parallel_comm_backend", "standard deepep hybridep",
     Care::kOpen},
    {kTorchtitan, "compile.components", "model loss", Care::kOpen},
    {kTorchtitan, "checkpoint.async_mode", "disabled async async_with_pinned_mem"},
    {kTorchtitan, "checkpoint.export_dtype", "bfloat16 float16 float32"},
    {kTorchtitan, "quantize.linear.float8.recipe_name", "tensorwise rowwise rowwise_with_gw_hp",
     Care::kOpen},
    {kTorchtitan, "model.converters",
     "float8 mx quantize.linear.float8 quantize.linear.mx quantize.grouped_mm.float8 "
     "quantize.grouped_mm.mx",
     Care::kRegistered},

    {kDeepspeed, "communication_data_type", "fp32 fp16 bf16 bfp16 none", Care::kAnyCase},
    {kDeepspeed, "data_types.grad_accum_dtype",
     "fp32 float32 float torch.float32 fp16 float16 half torch.float16 bf16 bfloat16 bfp16 "
     "torch.bfloat16 int8 torch.int8"},
    {kDeepspeed, "optimizer.type",
     "Adam AdamW Lamb OneBitAdam OneBitLamb ZeroOneAdam Lion Muon Adagrad Adadelta Adafactor "
     "Adamax "
     "SparseAdam ASGD LBFGS NAdam RAdam RMSprop Rprop SGD CPUAdam FusedAdam",
     Care::kOpen},
    {kDeepspeed, "scheduler.type",
     "LRRangeTest OneCycle WarmupLR WarmupDecayLR WarmupCosineLR StepLR MultiStepLR ConstantLR "
     "LinearLR ExponentialLR PolynomialLR CosineAnnealingLR LambdaLR CyclicLR OneCycleLR",
     Care::kOpen},

    {kAccelerate, "mixed_precision", "no fp16 bf16 fp8 false off n", Care::kAnyCase},
    {kAccelerate, "compute_environment", "LOCAL_MACHINE AMAZON_SAGEMAKER"},
    {kAccelerate, "dynamo_config.dynamo_backend",
     "no eager aot_eager inductor aot_ts_nvfuser nvprims_nvfuser cudagraphs ofi fx2trt onnxrt "
     "tensorrt aot_torchxla_trace_once torchxla_trace_once tvm ipex hpu_backend neuron false off",
     Care::kAnyCase},
    {kAccelerate, "dynamo_config.dynamo_mode",
     "default reduce-overhead max-autotune max-autotune-no-cudagraphs"},
    {kAccelerate, "fp8_config.fp8_backend", "ao te msamp", Care::kAnyCase},
    {kAccelerate, "fp8_config.fp8_format", "hybrid e4m3 e5m2", Care::kAnyCase},
    {kAccelerate, "parallelism_config.parallelism_config_cp_comm_strategy", "allgather alltoall"},
    {kAccelerate, "parallelism_config.parallelism_config_cp_backend", "torch", Care::kOpen},
    {kAccelerate, "parallelism_config.parallelism_config_sp_backend", "deepspeed", Care::kOpen},
    {kAccelerate, "deepspeed_config.offload_optimizer_device", "none cpu nvme"},
    {kAccelerate, "deepspeed_config.offload_param_device", "none cpu nvme"},
};

// From here on Megatron-Bridge's fields take other things (types of torch, enumerations).
constexpr std::string_view kFirstOfMegatronAlone = "lr";

bool is_held_to(const Row& row, const LaunchConfig& config) {
  if (config.format == kMegatronBridge && row.format == kMegatron) {
    const auto is_first = [](const Row& each) { return each.key == kFirstOfMegatronAlone; };
    return &row < std::find_if(std::begin(kRows), std::end(kRows), is_first);
  }
  const bool plugin = config.format == kAccelerate && config.framework == "deepspeed";
  return row.format == config.format || (plugin && row.format == kDeepspeed);
}

std::string plain(std::string_view text, Care care) {
  return care == Care::kExact ? std::string(text) : in_capitals(std::string(text));
}

bool is_number(const Row& row) {
  return row.care == Care::kNumber || row.care == Care::kWhole;
}

// The words of a value: a list has several; an enumeration's class stands before its member.
// Megatron-Bridge's recipes of mixed precision are names, or objects, which have none.
std::vector<std::string> words_of(const LaunchSetting& setting, const Row& row,
                                  LaunchFormat format) {
  std::string value = setting.value;
  if (is_number(row)) {
    return value.empty() ? std::vector<std::string>() : std::vector{value};
  }
  const bool megatron = format == kMegatron || format == kMegatronBridge;
  if (format == kMegatronBridge && setting.key == "mixed_precision") {
    value = value.substr(value.rfind('.') + 1);
    std::replace(value.begin(), value.end(), '-', '_');
    const bool is_type = value.starts_with("bf16") || value.starts_with("fp16");
    return is_type && value.find('(') == std::string::npos ? std::vector{value}
                                                           : std::vector<std::string>();
  }
  if (value.find_first_of("$({") != std::string::npos) {
    return {};  // the program works it out
  }
  std::replace_if(
      value.begin(), value.end(),
      [](char c) { return std::string_view(",[]'\"|").find(c) != std::string_view::npos; }, ' ');
  std::vector<std::string> words;
  for (const std::string_view word : names_in(value)) {
    const std::size_t dot = megatron ? word.rfind('.') : std::string_view::npos;
    words.emplace_back(dot == std::string_view::npos ? word : word.substr(dot + 1));
  }
  std::erase(words, "");
  return words;
}

// The word of the row that a wrong one is a slip of; empty: none.
std::string_view near_word(const Row& row, const std::string& word) {
  const std::string wrong = in_capitals(word);
  std::string_view near;
  std::size_t fewest = wrong.size();
  for (const std::string_view right : names_in(row.words)) {
    const std::string known = in_capitals(std::string(right));
    const std::size_t edits = edits_between(wrong, known);
    if ((edits == 0 || is_a_slip(wrong, known)) && edits < fewest) {
      near = right;
      fewest = edits;
    }
  }
  return near;
}

std::string fix_of_word(const Row& row, const std::string& word) {
  if (is_number(row)) {
    return fmt::format("use a {} ({})", row.care == Care::kWhole ? "whole number" : "number",
                       row.words);
  }
  const std::string_view near = near_word(row, word);
  return near.empty() ? fmt::format("use one of {}", fmt::join(names_in(row.words), ", "))
                      : fmt::format("use {}", near);
}

// As Python's float() and int() read it.
bool reads_as(const std::string& text, Care care) {
  std::string digits = text.substr(text.starts_with("+") ? 1 : 0);
  std::erase(digits, '_');
  const char* end = digits.data() + digits.size();
  double value = 0;
  std::int64_t whole = 0;
  const auto [stop, failure] = care == Care::kWhole ? std::from_chars(digits.data(), end, whole)
                                                    : std::from_chars(digits.data(), end, value);
  return failure != std::errc::invalid_argument && stop == end;
}

bool is_wrong(const Row& row, const std::string& word) {
  if (is_number(row)) {
    return !reads_as(word, row.care);
  }
  const std::vector<std::string_view> all = names_in(row.words);
  const std::string typed = plain(word, row.care);
  const bool known = std::any_of(all.begin(), all.end(), [&](std::string_view right) {
    return plain(right, row.care) == typed;
  });
  return !known && (row.care != Care::kOpen || !near_word(row, word).empty());
}

// torchtitan takes converters that a module of one's own registers.
bool has_own_words(const LaunchConfig& config) {
  return has_setting(config, "job.custom_config_module") ||
         has_setting(config, "experimental.custom_import") ||
         has_setting(config, "experimental.custom_args_module");
}

}  // namespace

std::optional<Finding> values_known(const LaunchConfig& config, const LaunchCase&) {
  // Programs around Megatron-LM may take other words.
  if (config.format == kMegatron && config.program != MegatronProgram::kMegatron) {
    return {};
  }
  for (const LaunchSetting& setting : config.settings) {
    const auto* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& each) {
      return each.key == setting.key && is_held_to(each, config);
    });
    if (row == std::end(kRows) || setting.open || has_own_words(config) ||
        find_setting(config, setting.key) != &setting) {
      continue;
    }
    for (const std::string& word : words_of(setting, *row, config.format)) {
      if (is_wrong(*row, word)) {
        const bool own = row->care == Care::kRegistered && near_word(*row, word).empty();
        return Finding{
            fmt::format("{} is '{}' ({})", setting.spelled, setting.value,
                        place_of(config, setting)),
            fix_of_word(*row, word) + (own ? ", or register it (experimental.custom_import)" : ""),
            own ? std::optional(Severity::kWarning) : std::nullopt};
      }
    }
  }
  return {};
}

}  // namespace trireme::planner
