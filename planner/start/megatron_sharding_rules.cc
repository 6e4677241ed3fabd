// What Megatron-LM and Megatron-Bridge ask when a fully sharded data parallelism is on
// (validate_args at d98e8a64; Megatron-Bridge's training/config.py), and what Bridge asks beside
// it.
#include <fmt/format.h>

#include <algorithm>

#include "planner/launch/megatron/megatron.h"
#include "planner/start/launch_rules.h"

namespace trireme::planner {
namespace {

using Found = std::optional<Finding>;

bool is_torch(const LaunchConfig& config) {
  return is_on(config, "use_torch_fsdp2");
}
bool is_megatron(const LaunchConfig& config) {
  return is_on(config, "use_megatron_fsdp") || is_on(config, "use_custom_fsdp");
}

// One connection would put gathers and reductions in line with the compute.
Found single_connection(const LaunchConfig& config, const LaunchCase&) {
  const LaunchSetting* variable = find_variable(config, "CUDA_DEVICE_MAX_CONNECTIONS");
  if ((!is_torch(config) && !is_megatron(config)) || variable == nullptr ||
      variable->value != "1" || config.program == MegatronProgram::kVerl) {
    return {};
  }
  return Finding{fmt::format("CUDA_DEVICE_MAX_CONNECTIONS is 1 (line {}) with FSDP: gathers and "
                             "reductions would wait for compute",
                             variable->line),
                 "unset CUDA_DEVICE_MAX_CONNECTIONS, or use 8"};
}

Found one_fsdp(const LaunchConfig& config, const LaunchCase&) {
  const Finding both{"Megatron-FSDP and torch FSDP2 are both asked for", "leave out one of them"};
  return is_torch(config) && is_megatron(config) ? Found(both) : Found();
}

Found torch_fsdp(const LaunchConfig& config, const LaunchCase& found) {
  if (!is_torch(config)) {
    return {};
  }
  std::vector<std::string> missing;
  const auto need = [&](bool holds, const char* what) {
    if (!holds) {
      missing.emplace_back(what);
    }
  };
  const std::string checkpoint = text_setting(config, "ckpt_format", "torch_dist");
  need(found.plan.pipeline == 1, "pp 1");
  need(found.plan.expert == 1, "ep 1");
  need(!is_on(config, "use_distributed_optimizer"), "no distributed optimizer");
  if (config.format == LaunchFormat::kMegatron) {
    need(is_on(config, "no_gradient_accumulation_fusion"), "--no-gradient-accumulation-fusion");
    need(checkpoint == "torch_dist" || checkpoint == "torch_dcp",
         "--ckpt-format torch_dist or torch_dcp");
    need(!found.job.model.tied_embeddings, "--untie-embeddings-and-output-weights");
  }
  need(!is_on(config, "fp16"), "bf16 instead of fp16");
  if (missing.empty()) {
    return {};
  }
  return Finding{fmt::format("torch FSDP2 with pp {}, ep {}: {} of its conditions do not hold",
                             found.plan.pipeline, found.plan.expert, missing.size()),
                 fmt::format("use {}", fmt::join(missing, ", "))};
}

Found megatron_fsdp_optimizer(const LaunchConfig& config, const LaunchCase&) {
  const std::string optimizer = text_setting(config, "optimizer", "adam");
  if (!is_megatron(config) || optimizer == "adam" || optimizer == "sgd") {
    return {};
  }
  return Finding{fmt::format("Megatron-FSDP with optimizer {}", optimizer), "use adam or sgd"};
}

Found meta_device(const LaunchConfig& config, const LaunchCase&) {
  if (!is_megatron(config) || !is_on(config, "init_model_with_meta_device") ||
      text_setting(config, "data_parallel_sharding_strategy", "no_shard") != "no_shard") {
    return {};
  }
  return Finding{"the model is made on the meta device with sharding strategy no_shard",
                 "use --data-parallel-sharding-strategy optim_grads_params"};
}

Found strategy_without_fsdp(const LaunchConfig& config, const LaunchCase&) {
  const std::string strategy = text_setting(config, "data_parallel_sharding_strategy", "no_shard");
  if (is_megatron(config) || strategy == "no_shard") {
    return {};
  }
  return Finding{fmt::format("sharding strategy {} has no effect without Megatron-FSDP", strategy),
                 config.format == LaunchFormat::kMegatron ? "add --use-megatron-fsdp"
                                                          : "set ddp.use_megatron_fsdp=true"};
}

Found checkpoint_format(const LaunchConfig& config, const LaunchCase& found) {
  const std::string format = text_setting(config, "ckpt_format", "torch_dist");
  if (format == "fsdp_dtensor" && !is_megatron(config)) {
    return Finding{"checkpoints of format fsdp_dtensor without Megatron-FSDP",
                   "use ckpt_format torch_dist"};
  }
  const bool keeps = (config.format == LaunchFormat::kMegatron &&
                      config.program != MegatronProgram::kVerl) ||  // it writes its own
                     has_setting(config, "save") ||
                     has_setting(config, "load");
  if (is_megatron(config) && format != "fsdp_dtensor" && keeps) {
    return Finding{fmt::format("Megatron-FSDP with checkpoints of format {}", format),
                   "use ckpt_format fsdp_dtensor"};
  }
  if (format == "torch_dcp" &&
      (!is_torch(config) || found.plan.tensor > 1 || found.plan.pipeline > 1)) {
    return Finding{
        fmt::format("checkpoints of format torch_dcp with tp {}, pp {}{}", found.plan.tensor,
                    found.plan.pipeline, is_torch(config) ? "" : " and no torch FSDP2"),
        "use ckpt_format torch_dist"};
  }
  return {};
}

Found manual_registration(const LaunchConfig& config, const LaunchCase&) {
  if (!is_on(config, "fsdp_manual_registration") || is_on(config, "nccl_ub") ||
      is_on(config, "use_nccl_ub")) {
    return {};
  }
  return Finding{
      "buffers are registered by hand without NCCL's user buffers",
      config.format == LaunchFormat::kMegatron ? "add --use-nccl-ub" : "set ddp.nccl_ub=true"};
}

Found rank_order(const LaunchConfig& config, const LaunchCase&) {
  if (!is_megatron(config) || !is_on(config, "use_tp_pp_dp_mapping")) {
    return {};
  }
  return Finding{
      "rank order tp-pp-dp with Megatron-FSDP is not supported",
      fmt::format("leave out {}", find_setting(config, "use_tp_pp_dp_mapping")->spelled)};
}

Found averaging(const LaunchConfig& config, const LaunchCase&) {
  if (!is_megatron(config) || !is_on(config, "average_in_collective")) {
    return {};
  }
  return Finding{"averaging in the collective is switched off with Megatron-FSDP",
                 "set ddp.average_in_collective=false"};
}

// Hydra refuses an override of a field that is not there; an attribute that Python sets is read by
// nobody.
Found fields_known(const LaunchConfig& config, const LaunchCase&) {
  constexpr std::size_t kShortest = 6;  // a shorter name is soon another's
  std::vector<std::string> wrong;
  std::vector<std::string> right;
  for (const LaunchSetting& setting : config.unknown) {
    const std::string slip = slip_of_megatron_setting(setting.key);
    if (slip.empty() || setting.key.size() < kShortest || has_setting(config, slip)) {
      continue;
    }
    wrong.push_back(fmt::format("{} ({})", setting.spelled, place_of(config, setting)));
    right.push_back(setting.spelled.substr(0, setting.spelled.rfind('.') + 1) + slip);
  }
  if (wrong.empty()) {
    return {};
  }
  return Finding{
      fmt::format("{} {} no field of Megatron-Bridge's configuration, and nothing reads it",
                  fmt::join(wrong, ", "), wrong.size() == 1 ? "is" : "are"),
      fmt::format("use {}", fmt::join(right, ", "))};
}

const LaunchSetting* by_path(const LaunchConfig& config, std::string_view path) {
  const auto found =
      std::find_if(config.settings.rbegin(), config.settings.rend(),
                   [&](const LaunchSetting& setting) { return setting.spelled == path; });
  return found == config.settings.rend() ? nullptr : &*found;
}

Found one_sequence_length(const LaunchConfig& config, const LaunchCase&) {
  const LaunchSetting* model = by_path(config, "model.seq_length");
  const LaunchSetting* data = by_path(config, "dataset.seq_length");
  if (data == nullptr) {
    data = by_path(config, "dataset.sequence_length");
  }
  if (model == nullptr || data == nullptr || model->value == data->value) {
    return {};
  }
  return Finding{fmt::format("model.seq_length is {}, {} is {}; they must be equal", model->value,
                             data->spelled, data->value),
                 fmt::format("set {} to {}", data->spelled, model->value)};
}

Found fine_tuning(const LaunchConfig& config, const LaunchCase& found) {
  const std::string recipe = text_setting(config, "recipe");
  const bool tunes = recipe.find("finetune") != std::string::npos ||
                     recipe.find("sft") != std::string::npos ||
                     recipe.find("peft") != std::string::npos;
  const bool token_loss = is_on(config, "calculate_per_token_loss");
  const bool averages = switch_setting(config, "average_in_collective").value_or(true);
  if (!tunes || found.plan.context == 1 || (token_loss && !averages)) {
    return {};
  }
  return Finding{
      fmt::format("fine-tuning with cp {} needs the loss per token, not averaged in the collective",
                  found.plan.context),
      "set model.calculate_per_token_loss=true and ddp.average_in_collective=false"};
}

Found packed(const LaunchConfig& config, const LaunchCase& found) {
  const auto size = integer_setting(config, "packed_sequence_size", -1);
  if (size.value_or(0) <= 0 || found.plan.micro_batch == 1) {
    return {};
  }
  return Finding{fmt::format("packed sequences with micro-batch {}", found.plan.micro_batch),
                 "use " + spelled(config.format, Knob::kMicroBatch, "1")};
}

constexpr LaunchRule kShardingRules[] = {
    {"CUDA_DEVICE_MAX_CONNECTIONS != 1 with FSDP", Severity::kError, {}, single_connection},
    {"one FSDP", Severity::kError, {}, one_fsdp},
    {"torch FSDP2 needs", Severity::kError, {}, torch_fsdp},
    {"Megatron-FSDP optimizer", Severity::kError, {}, megatron_fsdp_optimizer},
    {"meta device needs sharding", Severity::kError, {}, meta_device},
    {"sharding strategy needs Megatron-FSDP", Severity::kWarning, {}, strategy_without_fsdp},
    {"checkpoint format", Severity::kError, {}, checkpoint_format},
    {"manual registration needs NCCL user buffers", Severity::kError, {}, manual_registration},
    // Only Megatron-Bridge's from here on.
    {"values that Megatron-Bridge takes", Severity::kError, {}, values_known},
    {"fields that Megatron-Bridge has", Severity::kError, {}, fields_known},
    {"rank order with Megatron-FSDP", Severity::kError, {}, rank_order},
    {"average_in_collective with Megatron-FSDP", Severity::kWarning, {}, averaging},
    {"model and dataset sequence length", Severity::kError, {}, one_sequence_length},
    {"fine-tuning with cp > 1", Severity::kError, {}, fine_tuning},
    {"packed sequences need micro-batch 1", Severity::kError, {}, packed},
};
constexpr std::size_t kOnlyBridge = 7;

}  // namespace

std::span<const LaunchRule> megatron_fsdp_rules() {
  return std::span(kShardingRules).first(std::size(kShardingRules) - kOnlyBridge);
}

std::span<const LaunchRule> megatron_bridge_rules() {
  return kShardingRules;
}

}  // namespace trireme::planner
