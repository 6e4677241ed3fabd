// The choices of a framework by name: keys of frameworks.json and of `--set`, what each means and
// what the frameworks call it.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "core/error.h"
#include "planner/plan/framework_fields.h"

namespace trireme::planner {
namespace {

using Implementation = models::Implementation;

const FrameworkField fields[] = {
    {{"parameter_bytes", "bytes of a parameter as computed with", ""}, &Framework::parameter_bytes},
    {{"master_bytes", "bytes of the optimizer's own copy of a parameter; 0: the parameter itself",
      ""},
     &Framework::master_bytes},
    {{"gradient_bytes", "bytes of an element of the gradient buffer",
      "Megatron --accumulate-allreduce-grads-in-fp32; DeepSpeed data_types.grad_accum_dtype"},
     &Framework::gradient_bytes},
    {{"moment_bytes", "bytes of both Adam moments of a parameter",
      "Megatron --exp-avg-dtype, --exp-avg-sq-dtype"},
     &Framework::moment_bytes},
    {{"sgd_moment_bytes", "bytes of SGD's momentum of a parameter", ""},
     &Framework::sgd_moment_bytes},
    {{"reduce_bytes", "bytes of an element on the wire of the gradient reduction",
      "Megatron --grad-reduce-in-bf16; FSDP reduce_dtype; DeepSpeed communication_data_type"},
     &Framework::reduce_bytes},
    {{"fp16_reduce_bytes", "the same under fp16 where it differs; 0: it does not", ""},
     &Framework::fp16_reduce_bytes},
    {{"fp8_parameters", "under fp8, weights exist in 8 bits only", "Megatron --fp8-param-gather"},
     &Framework::fp8_parameters},
    {{"fp32_shard_is_parameter", "the resting shard is fp32, 16 bits exist only while gathered",
      "torchtitan training.dtype = float32"},
     &Framework::fp32_shard_is_parameter},
    {{"overlap_grad_reduce", "gradients are reduced beside the backward pass",
      "Megatron --overlap-grad-reduce; DeepSpeed overlap_comm"},
     &Framework::overlap_grad_reduce},
    {{"overlap_param_gather", "parameters are gathered beside compute",
      "Megatron --overlap-param-gather"},
     &Framework::overlap_param_gather},
    {{"reduce_every_micro_batch",
      "gradients are reduced after every micro-batch, not the last alone",
      "FSDP set_requires_gradient_sync"},
     &Framework::reduce_every_micro_batch},
    {{"root_unit_stays_gathered", "embedding and head stay gathered between forward and backward",
      ""},
     &Framework::root_unit_stays_gathered},
    {{"prefetch_units", "units gathered ahead of compute", "FSDP2 set_modules_to_forward_prefetch"},
     &Framework::prefetch_units},
    {{"expert_load",
      "room for rows that arrive at a rank's experts, over an even load's; 0: for all that could",
      ""},
     &Framework::expert_load},
    {{"prefetch_elements", "elements gathered ahead at least",
      "Megatron-FSDP suggested_communication_unit_size; DeepSpeed stage3_prefetch_bucket_size"},
     &Framework::prefetch_elements},
    {{"reshard_after_forward", "units are let go after forward and gathered again",
      "FSDP2 reshard_after_forward"},
     &Framework::reshard_after_forward},
    {{"shard_over_context", "ranks of context parallelism share the states too", ""},
     &Framework::shard_over_context},
    {{"bucket_elements", "elements of a gradient bucket; 0: the framework's own rule",
      "Megatron --ddp-bucket-size; DeepSpeed reduce_bucket_size"},
     &Framework::bucket_elements},
    {{"tp_comm_overlap", "tensor-parallel collectives run beside products in slices",
      "Megatron --tp-comm-overlap; torchtitan enable_async_tensor_parallel"},
     &Framework::tp_comm_overlap},
    {{"tp_backward_overlap", "collectives of input gradients run beside weight gradients",
      "Megatron CUDA_DEVICE_MAX_CONNECTIONS=1"},
     &Framework::tp_backward_overlap},
    {{"regather_in_backward", "sequence parallelism gathers inputs of column-parallel layers again",
      ""},
     &Framework::regather_in_backward},
    {{"blocking_p2p", "1F1B's sends and receives block", "Megatron --no-overlap-p2p-communication"},
     &Framework::blocking_p2p},
    {{"host_runs_ahead", "the host runs past the exchanges between stages", ""},
     &Framework::host_runs_ahead},
    {{"p2p_overlap_interleaved", "interleaved schedules exchange beside compute",
      "Megatron --overlap-p2p-communication-warmup-flush"},
     &Framework::p2p_overlap_interleaved},
    {{"scattered_boundary", "tensor ranks send a part of the boundary each",
      "Megatron scatter_gather_tensors_in_pipeline"},
     &Framework::scattered_boundary},
    {{"context_all_to_all",
      "context parallelism exchanges heads for tokens (Ulysses), not by a ring",
      "Megatron --cp-comm-type a2a; DeepSpeed sequence_parallel_size"},
     &Framework::context_all_to_all},
    {{"dispatch_once", "a token goes once to each node that holds one of its experts (DeepEP)",
      "Megatron --moe-token-dispatcher-type flex"},
     &Framework::dispatch_once},
    {{"dispatch_bytes", "bytes of an element on its way to the experts", ""},
     &Framework::dispatch_bytes},
    {{"expert_overlap", "tokens travel to the experts beside another micro-batch's layers",
      "Megatron --overlap-moe-expert-parallel-comm"},
     &Framework::expert_overlap},
    {{"expert_launches", "host work of a layer with experts beyond its kernels, in kernel launches",
      ""},
     &Framework::expert_launches},
    {{"expert_kernels",
      "kernels a local expert has to itself in forward; twice as many in backward",
      "Megatron --moe-grouped-gemm"},
     &Framework::expert_kernels},
    {{"even_routing", "every expert gets as many tokens, so that no rank keeps more than others",
      "Megatron --moe-router-force-load-balancing"},
     &Framework::even_routing},
    {{"experts_without_autocast",
      "experts multiply in fp32 where nothing is sharded: autocast does not know their product",
      ""},
     &Framework::experts_without_autocast},
    {{"fp8_weight_gradient_rate", "rate of weight gradients in fp8, of the other products'", ""},
     &Framework::fp8_weight_gradient_rate},
    {{"fp8_activation_input", "under fp8, inputs of activation functions are kept in 8 bits",
      "Megatron --activation-func-fp8-input-store"},
     &Framework::fp8_activation_input},
    {{"two_way_pipeline", "micro-batches enter a pipeline at both ends (DualPipe)", ""},
     &Framework::two_way_pipeline},
    {{"logit_bytes", "bytes at the peak of a logit", ""}, &Framework::logit_bytes},
    {{"compiled_logit_bytes", "the same where the loss is compiled; 0: it is not",
      "torchtitan compile.components = [\"loss\"]"},
     &Framework::compiled_logit_bytes},
    {{"fused_logit_bytes", "the same with cross_entropy_fusion",
      "Megatron --cross-entropy-fusion-impl"},
     &Framework::fused_logit_bytes},
    {{"kept_logit_bytes", "bytes of a logit that waits for its backward pass", ""},
     &Framework::kept_logit_bytes},
    {{"cross_entropy_fusion", "a fused cross-entropy kernel",
      "Megatron --cross-entropy-loss-fusion"},
     &Framework::cross_entropy_fusion},
    {{"multi_token_prediction", "a model's extra prediction modules are trained",
      "Megatron --mtp-num-layers"},
     &Framework::multi_token_prediction},
    {{"loss_chunks", "parts in which logits and loss are computed one after the other",
      "torchtitan ChunkedCELoss"},
     &Framework::loss_chunks},
    {{"gradient_accumulation_fusion", "weight gradients are added in the product's own kernel",
      "Megatron --no-gradient-accumulation-fusion switches it off"},
     &Framework::gradient_accumulation_fusion},
    {{"decomposed_norms", "norms under sequence parallelism keep fp32 copies", ""},
     &Framework::decomposed_norms},
    {{"attention_output_copy", "the output of attention is copied into token order", ""},
     &Framework::attention_output_copy},
    {{"unit_gather_launches", "host work of gathering a unit, in kernel launches", ""},
     &Framework::unit_gather_launches},
    {{"unit_reduce_launches", "host work of reducing a unit, in kernel launches", ""},
     &Framework::unit_reduce_launches},
    {{"unit_hook_launches", "host work of a unit's hooks in a micro-batch, in kernel launches", ""},
     &Framework::unit_hook_launches},
    {{"sharded_tensor_launches",
      "host work more of each tensor that tensor parallelism splits, in kernel launches", ""},
     &Framework::sharded_tensor_launches},
    {{"compile", "torch.compile on the blocks",
      "torchtitan compile.enable; accelerate dynamo_backend"},
     &Framework::compile},
    {{"traced_graph", "the step is traced into one graph whose kernels run one by one",
      "torchtitan graph_trainer"},
     &Framework::traced_graph},
    {{"graphed_launches", "share of the kernels that CUDA graphs launch, so that the host does not",
      "Megatron --cuda-graph-impl, --cuda-graph-scope"},
     &Framework::graphed_launches},
    {{"pad_vocabulary", "the vocabulary is padded to a multiple of 128 * tp",
      "Megatron --make-vocab-size-divisible-by"},
     &Framework::pad_vocabulary},
    {{"dropout", "share that attention and hidden dropout drop",
      "Megatron --attention-dropout, --hidden-dropout"},
     &Framework::dropout},
    {{"fp32_norms", "norms written out in PyTorch keep an fp32 copy of their input", ""},
     &Framework::fp32_norms},
    {{"foreach_optimizer", "PyTorch's foreach Adam holds one copy of the parameters at the step",
      "torch.optim.AdamW(foreach=True)"},
     &Framework::foreach_optimizer},
    {{"frozen_graph_stays", "adapters' units stay gathered from forward to backward", ""},
     &Framework::frozen_graph_stays},
    {{"reserved_low", "reserved over allocated memory, at least", ""}, &Framework::reserved_low},
    {{"reserved_typical", "reserved over allocated memory, usually", ""},
     &Framework::reserved_typical},
    {{"reserved_high", "reserved over allocated memory, at most", ""}, &Framework::reserved_high},
    {{"interleaved_fragmentation", "more of it with virtual pipeline stages", ""},
     &Framework::interleaved_fragmentation},
    {{"expandable_segments", "freed blocks of any size serve again",
      "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
     &Framework::expandable_segments},
    {{"recorded_collectives", "memory of collectives comes back late (PyTorch before 2.8)",
      "TORCH_NCCL_AVOID_RECORD_STREAMS=0"},
     &Framework::recorded_collectives},
    {{"launch_blocking", "the host waits for every kernel", "CUDA_LAUNCH_BLOCKING=1"},
     &Framework::launch_blocking},
    {{"world_group", "norms and barriers run on a communicator of all ranks", ""},
     &Framework::world_group},
    {{"workspace_libraries", "workspaces of cuBLAS's size inside the allocator",
      "CUBLAS_WORKSPACE_CONFIG"},
     &Framework::workspace_libraries},
    {{"lasting_gib", "GiB of batch, masks and random states that live through the step", ""},
     &Framework::lasting_gib},
    {{"context_gib", "GiB of CUDA context and libraries outside the allocator", ""},
     &Framework::context_gib},
    {{"recompute_per_op", "selective recompute is PyTorch's policy per op",
      "torchtitan activation_checkpoint.selective_ac_option = \"op\""},
     &Framework::recompute_per_op},
    {{"recomputes_by_default", "recompute is selective where nothing is said",
      "torchtitan activation_checkpoint.mode"},
     &Framework::recomputes_by_default},
    {{"reshard_with_pipeline", "units are let go after forward in a pipeline too",
      "torchtitan parallelism.fsdp_reshard_after_forward"},
     &Framework::reshard_with_pipeline},
    {{"ends_count_as_layers",
      "embedding and head count as layers where layers are spread over stages",
      "torchtitan first_stage_less_layers, last_stage_less_layers; Megatron "
      "--account-for-embedding-in-pipeline-split"},
     &Framework::ends_count_as_layers},
    {{"micro_batches_are_chunks", "as many micro-batches as pipeline chunks",
      "torchtitan pipeline_parallel_microbatches"},
     &Framework::micro_batches_are_chunks},
    {{"micro_batch", "sequences of a micro-batch where nothing is said; 0: no default",
      "torchtitan training.local_batch_size"},
     &Framework::micro_batch},
    {{"interleaved_chunks",
      "virtual stages a rank where an interleaved schedule says nothing; 0: no default",
      "torchtitan pipeline_parallel_layers_per_stage"},
     &Framework::interleaved_chunks},
};

// Choices that move several fields together.
const Setting compound[] = {
    {"implementation",
     "whose layers: transformer_engine, local (classic_megatron), eager_torch, compiled_torch or "
     "trireme",
     "Megatron --transformer-impl"},
    {"grad_dtype", "fp32, bf16 or fp16: of the gradient buffer and of the wire",
     "Megatron --grad-reduce-in-bf16; Bridge grad_reduce_in_fp32"},
    {"reduce_dtype", "fp32, bf16 or fp16: of the wire of the gradient reduction",
     "FSDP MixedPrecision.reduce_dtype"},
    {"parameter_dtype", "fp32 or bf16: of the parameter that rests", "torchtitan training.dtype"},
    {"optimizer_dtype", "fp32, bf16 or fp16: of Adam's moments", "Megatron --exp-avg-dtype"},
    {"mixed_precision", "pure (bf16 throughout) or default",
     "llm-foundry fsdp_config.mixed_precision"},
};

constexpr std::pair<const char*, Implementation> kImplementations[] = {
    {"transformer_engine", Implementation::kTransformerEngine},
    {"eager_torch", Implementation::kEagerTorch},
    {"trireme", Implementation::kTrireme},
    {"compiled_torch", Implementation::kCompiledTorch},
    {"classic_megatron", Implementation::kClassicMegatron},
    {"local", Implementation::kClassicMegatron},  // Megatron-LM's --transformer-impl local
};

[[noreturn]] void refuse(const std::string& key, const std::string& value,
                         const std::string& right) {
  throw Error(fmt::format("--set {}", key),
              fmt::format("'{}' is wrong; {} would be right", value, right));
}

bool parse_switch(const std::string& key, const std::string& value) {
  if (value == "true" || value == "on" || value == "1" || value == "yes") {
    return true;
  }
  if (value == "false" || value == "off" || value == "0" || value == "no") {
    return false;
  }
  refuse(key, value, "true or false");
}

double parse_number(const std::string& key, const std::string& value) {
  double number = 0;
  const char* end = value.data() + value.size();
  const auto [stop, failure] = std::from_chars(value.data(), end, number);
  if (failure != std::errc() || stop != end || !(number >= 0) || number > 1e15) {
    refuse(key, value, "a number of 0 or more");
  }
  return number;
}

// A number that its field can hold and that is whole.
template <typename Count>
Count parse_count(const std::string& key, const std::string& value) {
  const double number = parse_number(key, value);
  const auto most = static_cast<double>(std::numeric_limits<Count>::max());
  if (number != std::floor(number) || number > most) {
    refuse(key, value, fmt::format("a whole number from 0 to {:.0f}", std::min(most, 1e15)));
  }
  return static_cast<Count>(number);
}

// Bytes of one element named by its type.
double parse_dtype(const std::string& key, const std::string& value) {
  if (value == "fp32") {
    return 4;
  }
  if (value == "bf16" || value == "fp16") {
    return 2;
  }
  refuse(key, value, "fp32, bf16 or fp16");
}

Implementation parse_implementation(const std::string& key, const std::string& value) {
  for (const auto& [name, implementation] : kImplementations) {
    if (value == name) {
      return implementation;
    }
  }
  refuse(key, value,
         "transformer_engine, local, eager_torch, compiled_torch, classic_megatron or trireme");
}

// The choices that move several fields together.
bool apply_compound(Framework& framework, const std::string& key, const std::string& value) {
  if (key == "implementation") {
    framework.implementation = parse_implementation(key, value);
  } else if (key == "grad_dtype") {
    framework.reduce_bytes = parse_dtype(key, value);
    framework.gradient_bytes = framework.reduce_bytes;
  } else if (key == "reduce_dtype") {
    framework.reduce_bytes = parse_dtype(key, value);
  } else if (key == "parameter_dtype") {
    // bf16: parameters, and gradients with them, exist in bf16 only. fp32: the stored parameter is
    // the master.
    const bool half = parse_dtype(key, value) < 4;
    framework.fp32_shard_is_parameter = !half;
    framework.parameter_bytes = 2;
    framework.master_bytes = half ? 0 : 4;
    framework.gradient_bytes = half ? 2 : 4;
    framework.reduce_bytes = half ? 2 : framework.reduce_bytes;
  } else if (key == "optimizer_dtype") {
    framework.moment_bytes = 2 * parse_dtype(key, value);
    framework.sgd_moment_bytes = framework.sgd_moment_bytes > 0 ? framework.moment_bytes / 2 : 0;
  } else if (key == "mixed_precision") {
    if (value != "pure" && value != "default") {
      refuse(key, value, "pure or default");
    }
    framework.mixed_precision_pure = value == "pure";
    if (framework.mixed_precision_pure) {
      framework.reduce_bytes = 2;  // llm-foundry: parameters, reduction and buffers in bf16
    }
  } else if (key == "compile") {
    framework.compile = parse_switch(key, value);
    if (framework.compile && framework.compiled_logit_bytes > 0) {
      framework.logit_bytes = framework.compiled_logit_bytes;
    }
    if (framework.implementation == Implementation::kEagerTorch && framework.compile) {
      framework.implementation = Implementation::kCompiledTorch;
    } else if (framework.implementation == Implementation::kCompiledTorch && !framework.compile) {
      framework.implementation = Implementation::kEagerTorch;
    }
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::span<const FrameworkField> framework_fields() {
  return fields;
}

Implementation implementation_of(const std::string& name) {
  return parse_implementation("implementation", name);
}

void apply_setting(Framework& framework, const std::string& key, const std::string& value) {
  if (apply_compound(framework, key, value)) {
    return;
  }
  for (const FrameworkField& field : fields) {
    if (key != field.setting.name) {
      continue;
    }
    std::visit(
        [&](auto member) {
          using Type = std::decay_t<decltype(framework.*member)>;
          if constexpr (std::is_same_v<Type, bool>) {
            framework.*member = parse_switch(key, value);
          } else if constexpr (std::is_same_v<Type, double>) {
            framework.*member = parse_number(key, value);
          } else {
            framework.*member = parse_count<Type>(key, value);
          }
        },
        field.member);
    return;
  }
  throw Error(fmt::format("--set {}", key),
              fmt::format("no such setting; there are {}", fmt::join(setting_names(), ", ")));
}

std::string setting_value(const Framework& framework, const std::string& name) {
  for (const FrameworkField& field : fields) {
    if (name == field.setting.name) {
      return std::visit([&](auto member) { return fmt::format("{}", framework.*member); },
                        field.member);
    }
  }
  for (const auto& [text, implementation] : kImplementations) {
    if (name == "implementation" && framework.implementation == implementation) {
      return text;
    }
  }
  return "";
}

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = [] {
    std::vector<Setting> list;
    for (const FrameworkField& field : fields) {
      list.push_back(field.setting);
    }
    list.insert(list.end(), std::begin(compound), std::end(compound));
    return list;
  }();
  return all;
}

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (const Setting& setting : settings()) {
    names.push_back(setting.name);
  }
  return names;
}

}  // namespace trireme::planner
