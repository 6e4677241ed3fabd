// What Megatron-LM asks of overlapped communication, optimizers, experts and attention
// (validate_args, DistributedDataParallelConfig, TransformerConfig.__post_init__).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "planner/launch/megatron/megatron.h"
#include "planner/start/launch_rules.h"

namespace trireme::planner {
namespace {

using Found = std::optional<Finding>;

bool is_fsdp(const LaunchConfig& config) {
  return is_on(config, "use_torch_fsdp2") || is_on(config, "use_megatron_fsdp") ||
         is_on(config, "use_custom_fsdp");
}

// Compute capability 10 and above; AMD's gfx numbers are 900 and up, and its devices say 9.
bool is_blackwell(const topologies::Gpu& gpu) {
  return gpu.compute_capability >= 100 && gpu.compute_capability < 900;
}

// Launch order of collectives and the compute beside them, before Blackwell.
Found connections(const LaunchConfig& config, const LaunchCase& found) {
  const LaunchSetting* variable = find_variable(config, "CUDA_DEVICE_MAX_CONNECTIONS");
  const bool one = variable != nullptr && variable->value == "1";
  if (config.format != LaunchFormat::kMegatron || one || is_blackwell(found.job.cluster.gpu) ||
      is_fsdp(config) || is_older_megatron(config) ||
      (found.plan.tensor == 1 && found.plan.context == 1)) {
    return {};
  }
  Finding finding{fmt::format("CUDA_DEVICE_MAX_CONNECTIONS is {} with tp {} and cp {} on {}",
                              variable == nullptr ? "not set" : variable->value, found.plan.tensor,
                              found.plan.context, found.job.cluster.gpu.name),
                  "export CUDA_DEVICE_MAX_CONNECTIONS=1"};
  // A file without a launcher may get it from elsewhere; with overlapped experts it is a warning.
  if (is_on(config, "overlap_moe_expert_parallel_comm") ||
      (!config.gpus && !config.gpus_per_node && config.environment.empty())) {
    finding.severity = Severity::kWarning;
  }
  return finding;
}

Found wgrad_deferral(const LaunchConfig& config, const LaunchCase& found) {
  if (!is_on(config, "defer_embedding_wgrad_compute") ||
      (found.plan.pipeline > 1 && found.job.framework.gradient_accumulation_fusion)) {
    return {};
  }
  return Finding{
      fmt::format("deferred embedding gradients with pp {} and {} gradient accumulation",
                  found.plan.pipeline,
                  found.job.framework.gradient_accumulation_fusion ? "fused" : "unfused"),
      "use pp 2 or more and fused gradient accumulation, or leave them out"};
}

Found point_to_point(const LaunchConfig& config, const LaunchCase& found) {
  const bool overlaps =
      !is_on(config, "no_overlap_p2p_communication") &&
      switch_setting(config, "overlap_p2p_comm").value_or(found.plan.virtual_pipeline > 1);
  const bool batches = is_on(config, "batch_p2p_comm");
  if (overlaps && batches) {
    return Finding{"messages are overlapped and batched at once", "leave out batch_p2p_comm"};
  }
  if (is_on(config, "overlap_p2p_communication_warmup_flush") && (!overlaps || batches)) {
    return Finding{"overlap in warm-up and flush needs overlapped messages without batching",
                   "use interleaving with overlapped messages, or leave it out"};
  }
  return {};
}

Found parameter_gather(const LaunchConfig& config, const LaunchCase& found) {
  const bool shards = found.plan.sharding != Sharding::kNone || is_fsdp(config);
  const bool reduces = found.job.framework.overlap_grad_reduce;
  if (!is_on(config, "overlap_param_gather") || is_fsdp(config) || (shards && reduces)) {
    return {};
  }
  return Finding{
      fmt::format("overlapped parameter gathering {}{}{}",
                  shards ? "" : "without a distributed optimizer",
                  !shards && !reduces ? " and " : "",
                  reduces ? "" : "without overlapped gradient reduction"),
      config.format == LaunchFormat::kMegatron
          ? "add --use-distributed-optimizer --overlap-grad-reduce"
          : "set ddp.use_distributed_optimizer and ddp.overlap_grad_reduce to True",
      // Core alone asserts nothing
      config.program == MegatronProgram::kVerl ? std::optional(Severity::kWarning) : std::nullopt};
}

Found gather_with_step(const LaunchConfig& config, const LaunchCase& found) {
  if (!is_on(config, "overlap_param_gather_with_optimizer_step") ||
      (found.plan.sharding != Sharding::kNone && is_on(config, "overlap_grad_reduce") &&
       is_on(config, "overlap_param_gather") && found.plan.virtual_pipeline > 1)) {
    return {};
  }
  return Finding{
      "gathering beside the optimizer step needs the distributed optimizer, both overlaps and "
      "interleaving",
      "leave it out, or add the distributed optimizer, both overlaps and 2 or more virtual stages"};
}

Found optimizer_instances(const LaunchConfig& config, const LaunchCase& found) {
  const auto instances = integer_setting(config, "num_distributed_optimizer_instances");
  if (instances.value_or(1) > 1 && found.plan.sharding == Sharding::kNone) {
    return Finding{
        fmt::format("{} distributed optimizer instances without the distributed optimizer",
                    *instances),
        "add --use-distributed-optimizer, or use 1 instance"};
  }
  // core/parallel_state.py: the ranks that share the states of the layers, context ranks among
  // them, and those that share the experts', which exist without experts too.
  const Plan& plan = found.plan;
  const std::int64_t dense = found.world / std::max<std::int64_t>(1, plan.tensor * plan.pipeline);
  const std::int64_t tensor = plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor;
  const std::int64_t experts =
      found.world / std::max<std::int64_t>(1, tensor * plan.expert * plan.pipeline);
  if (instances.value_or(1) > 1 && (dense % *instances != 0 || experts % *instances != 0)) {
    const bool dense_ranks = dense % *instances != 0;
    return Finding{
        fmt::format(
            "data parallel {}{} is not divisible by {} optimizer instances",
            dense_ranks ? dense : experts,
            dense_ranks ? "" : fmt::format(" of the experts (ep {} x etp {})", plan.expert, tensor),
            *instances),
        fmt::format("use a divisor of {}", std::gcd(dense, experts))};
  }
  return {};
}

Found one_bucket_rule(const LaunchConfig& config, const LaunchCase&) {
  if (!has_setting(config, "ddp_bucket_size") || !has_setting(config, "ddp_num_buckets")) {
    return {};
  }
  return Finding{
      fmt::format("a bucket size ({}) and a number of buckets ({}) are both given",
                  text_setting(config, "ddp_bucket_size"), text_setting(config, "ddp_num_buckets")),
      "leave out one of them"};
}

Found tensor_overlap(const LaunchConfig& config, const LaunchCase& found) {
  if (!is_on(config, "tp_comm_overlap") || found.plan.sequence_parallel) {
    return {};
  }
  return Finding{fmt::format("overlapped tensor communication without sequence parallelism (tp {})",
                             found.plan.tensor),
                 found.plan.tensor > 1
                     ? "use " + spelled(config.format, Knob::kSequenceParallel, "")
                     : "leave it out, or use tp 2 or more with sequence parallelism"};
}

std::vector<std::int64_t> numbers_in(const std::string& text) {
  std::vector<std::int64_t> numbers;
  for (std::size_t at = text.find_first_of("0123456789"); at != std::string::npos;
       at = text.find_first_of("0123456789", at)) {
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, failure] = std::from_chars(text.data() + at, end, value);
    if (failure != std::errc() || value > 1'000'000) {
      return {};
    }
    numbers.push_back(value);
    at = static_cast<std::size_t>(stop - text.data());
  }
  return numbers;
}

Found context_kinds(const LaunchConfig& config, const LaunchCase& found) {
  const std::string kinds = text_setting(config, "cp_comm_type", "p2p");
  const std::string sizes = text_setting(config, "hierarchical_context_parallel_sizes");
  const auto words = std::count(kinds.begin(), kinds.end(), ' ') + 1;
  if (words > 1 && words != found.job.model.layers) {
    return Finding{
        fmt::format("cp_comm_type lists {} kinds for {} layers", words, found.job.model.layers),
        fmt::format("give 1 or {} of them", found.job.model.layers)};
  }
  if (sizes.empty()) {
    if (kinds.find("a2a+p2p") == std::string::npos) {
      return {};
    }
    return Finding{"cp_comm_type a2a+p2p needs the sizes of both levels",
                   fmt::format("add --hierarchical-context-parallel-sizes {} {}",
                               std::max<std::int64_t>(1, found.plan.context / 2), 2)};
  }
  std::int64_t product = 1;
  for (const std::int64_t size : numbers_in(sizes)) {
    product = std::min<std::int64_t>(product * size, 1'000'000'000);
  }
  if (product == found.plan.context) {
    return {};
  }
  return Finding{fmt::format("hierarchical context sizes {} multiply to {}, cp is {}", sizes,
                             product, found.plan.context),
                 "use " + spelled(config.format, Knob::kContext, std::to_string(product))};
}

Found hybrid_context(const LaunchConfig& config, const LaunchCase& found) {
  if (!is_on(config, "hybrid_context_parallel") ||
      (found.plan.pipeline == 1 && !is_fsdp(config) && !is_on(config, "enable_cuda_graph"))) {
    return {};
  }
  return Finding{fmt::format("hybrid context parallelism with pp {}{}{}", found.plan.pipeline,
                             is_fsdp(config) ? ", FSDP" : "",
                             is_on(config, "enable_cuda_graph") ? ", CUDA graphs" : ""),
                 "use pp 1 without FSDP and CUDA graphs, or leave it out"};
}

Found expert_biases(const LaunchConfig& config, const LaunchCase& found) {
  const std::int64_t tensor =
      found.plan.expert_tensor == 0 ? found.plan.tensor : found.plan.expert_tensor;
  if (!found.job.model.moe || tensor == 1 || !config.model ||
      is_on(config, "disable_bias_linear") || config.format != LaunchFormat::kMegatron) {
    return {};
  }
  return Finding{fmt::format("experts have biases with etp {}", tensor),
                 "add --disable-bias-linear, or use --expert-tensor-parallel-size 1"};
}

Found one_expert_a_token(const LaunchConfig& config, const LaunchCase&) {
  if (integer_setting(config, "moe_router_topk").value_or(2) != 1 ||
      is_on(config, "moe_router_pre_softmax") || !has_setting(config, "num_experts") ||
      text_setting(config, "moe_router_score_function", "softmax") != "softmax" ||
      text_setting(config, "moe_router_load_balancing_type") == "sinkhorn" ||
      config.program == MegatronProgram::kDeepspeed) {
    return {};
  }
  return Finding{"one expert a token needs the softmax before the choice",
                 "add --moe-router-pre-softmax"};
}

Found expert_overlap(const LaunchConfig& config, const LaunchCase& found) {
  if (!is_on(config, "overlap_moe_expert_parallel_comm")) {
    return {};
  }
  std::vector<std::string> missing;
  const auto need = [&](bool holds, const char* what) {
    if (!holds) {
      missing.emplace_back(what);
    }
  };
  const std::string dispatcher = text_setting(config, "moe_token_dispatcher_type", "allgather");
  need(found.plan.expert > 1, "ep 2 or more");
  need(dispatcher == "alltoall" || dispatcher == "flex", "token dispatcher alltoall or flex");
  need(found.plan.recompute != Recompute::kFull, "no full recompute");
  need(found.plan.pipeline == 1 || found.plan.virtual_pipeline > 1, "virtual stages with pp > 1");
  need(config.precision != "fp32", "bf16 or fp16");
  need(integer_setting(config, "mtp_num_layers", 0).value_or(0) <= 1,
       "at most one prediction layer more");
  need(!is_on(config, "fsdp_double_buffer"), "no double buffer of FSDP");
  if (missing.empty()) {
    return {};
  }
  return Finding{"overlapped expert communication is asked for without what it needs",
                 fmt::format("use {}", fmt::join(missing, ", "))};
}

Found latent_or_grouped(const LaunchConfig& config, const LaunchCase&) {
  if (!is_on(config, "multi_latent_attention") || !is_on(config, "group_query_attention")) {
    return {};
  }
  return Finding{
      "latent attention and grouped queries are both asked for",
      fmt::format("leave out {}", find_setting(config, "group_query_attention")->spelled)};
}

Found loss_fusion(const LaunchConfig& config, const LaunchCase&) {
  if (text_setting(config, "cross_entropy_fusion_impl") != "te" ||
      !is_on(config, "cross_entropy_loss_fusion") || config.format != LaunchFormat::kMegatron ||
      config.program == MegatronProgram::kSwift || config.program == MegatronProgram::kVerl) {
    return {};  // those two do not validate by Megatron-LM's arguments.py
  }
  // Others come with a Megatron-LM of their own, which may be older than the refusal.
  return Finding{
      "Transformer Engine's fused cross entropy is refused for its instability",
      "use --cross-entropy-fusion-impl native",
      config.program == MegatronProgram::kOther ? std::optional(Severity::kWarning) : std::nullopt};
}

// training/determinism.py ARG_VALUES_REQUIRED_FOR_DETERMINISM.
Found determinism(const LaunchConfig& config, const LaunchCase&) {
  for (const char* name : {"cross_entropy_loss_fusion", "tp_comm_overlap"}) {
    if (is_on(config, "deterministic_mode") && is_on(config, name)) {
      return Finding{fmt::format("{} is not deterministic", name),
                     fmt::format("leave out {}", find_setting(config, name)->spelled)};
    }
  }
  return {};
}

Found offloaded_optimizer(const LaunchConfig& config, const LaunchCase&) {
  if (!is_on(config, "optimizer_cpu_offload") || is_on(config, "use_precision_aware_optimizer")) {
    return {};
  }
  return Finding{"an optimizer on the host needs the precision-aware one",
                 "add --use-precision-aware-optimizer"};
}

Found one_half_type(const LaunchConfig& config, const LaunchCase&) {
  if (!is_on(config, "bf16") || !is_on(config, "fp16")) {
    return {};
  }
  return Finding{"bf16 and fp16 are both asked for", "leave out --fp16"};
}

// Transformer Engine's check_mxfp8_support.
Found blocks_of_fp8(const LaunchConfig& config, const LaunchCase& found) {
  const std::string recipe = text_setting(config, "mixed_precision");
  const bool mx =
      text_setting(config, "fp8_recipe") == "mxfp8" || recipe.find("mxfp8") != std::string::npos;
  if (!mx || found.job.cluster.gpu.compute_capability >= 100) {
    return {};
  }
  return Finding{
      fmt::format("the mxfp8 recipe on {}: it needs Blackwell", found.job.cluster.gpu.name),
      config.format == LaunchFormat::kMegatron
          ? "use --fp8-recipe tensorwise"
          : "use mixed_precision = \"bf16_with_fp8_current_scaling_mixed\""};
}

constexpr LaunchRule kOverlapRules[] = {
    {"mxfp8 needs Blackwell", Severity::kError, {}, blocks_of_fp8},
    {"CUDA_DEVICE_MAX_CONNECTIONS == 1", Severity::kError, {}, connections},
    {"defer_embedding_wgrad_compute", Severity::kError, {}, wgrad_deferral},
    {"overlap_p2p or batch_p2p", Severity::kError, {}, point_to_point},
    {"overlap_param_gather needs", Severity::kError, {}, parameter_gather},
    {"overlap_param_gather_with_optimizer_step needs", Severity::kError, {}, gather_with_step},
    {"distributed optimizer instances", Severity::kError, {}, optimizer_instances},
    {"bucket size or number", Severity::kError, {}, one_bucket_rule},
    {"tp_comm_overlap needs sequence_parallel", Severity::kError, {}, tensor_overlap},
    {"context-parallel kinds and sizes", Severity::kError, {}, context_kinds},
    {"hybrid_context_parallel", Severity::kError, {}, hybrid_context},
    {"expert biases need etp 1", Severity::kError, {}, expert_biases},
    {"one expert a token", Severity::kError, {}, one_expert_a_token},
    {"overlap_moe_expert_parallel_comm needs", Severity::kError, {}, expert_overlap},
    {"latent attention excludes grouped queries", Severity::kError, {}, latent_or_grouped},
    {"cross-entropy fusion of TE", Severity::kError, {}, loss_fusion},
    {"deterministic_mode needs", Severity::kError, {}, determinism},
    {"optimizer_cpu_offload", Severity::kError, {}, offloaded_optimizer},
    {"bf16 or fp16", Severity::kError, {}, one_half_type},
};

}  // namespace

std::span<const LaunchRule> megatron_overlap_rules() {
  return kOverlapRules;
}

}  // namespace trireme::planner
