// What stops Megatron-LM between its command line and the first step: its parser, the local layers,
// the evaluation (arguments.py, training.py, core/transformer/torch_norm.py at d98e8a64).
#include <fmt/format.h>

#include <algorithm>

#include "planner/launch/field_table.h"
#include "planner/launch/megatron/megatron.h"
#include "planner/start/launch_rules.h"

namespace trireme::planner {
namespace {

using Found = std::optional<Finding>;

bool is_local(const LaunchConfig& config) {
  return config.format == LaunchFormat::kMegatron && !is_older_megatron(config) &&
         text_setting(config, "transformer_impl") == "local";
}

Found values_given(const LaunchConfig& config, const LaunchCase&) {
  if (config.empty.empty()) {
    return {};
  }
  const LaunchSetting& setting = config.empty.front();
  return Finding{
      fmt::format("{} ({}) has no value", setting.spelled, line_of(config, setting.line)),
      fmt::format("write {} VALUE, or leave it out", setting.spelled)};
}

// Flags that Megatron-LM's own parser has with an underscore (training/arguments.py).
constexpr std::string_view kUnderscored =
    "--override-opt_param-scheduler --use-checkpoint-opt_param-scheduler";

// Where the flag that was meant is there too, or another program reads the arguments first, the
// unknown one may be that program's.
Found names_known(const LaunchConfig& config, const LaunchCase& found) {
  // The file's words stay what they are under every degree that is tried.
  if (found.is_trial || config.format != LaunchFormat::kMegatron ||
      config.program == MegatronProgram::kSwift) {
    return {};
  }
  const bool own_parser =
      config.program == MegatronProgram::kMegatron || config.program == MegatronProgram::kDeepspeed;
  std::vector<std::string> refused;
  std::vector<std::string> right;
  bool certain = false;
  const auto refuse = [&](const LaunchSetting& setting, std::string flag) {
    refused.push_back(fmt::format("{} ({})", setting.spelled, place_of(config, setting)));
    std::replace(flag.begin(), flag.end(), '_', '-');
    right.push_back(std::move(flag));
  };
  for (const LaunchSetting& setting : config.unknown) {
    const std::string near = near_megatron_flag(setting.key);
    const bool by_chance =  // slime's --opd-type is none of --rope-type
        !near.empty() && !own_parser && near.front() != setting.key.front();
    if (near.empty() || by_chance) {
      continue;
    }
    certain |= setting.line == 0 || (own_parser && !has_setting(config, near));
    refuse(setting, "--" + near);
  }
  for (const LaunchSetting& setting : config.settings) {  // Python's parser keeps - and _ apart
    if (config.program == MegatronProgram::kMegatron && setting.spelled.starts_with("--") &&
        setting.spelled.find('_') != std::string::npos &&
        !is_among(kUnderscored, setting.spelled)) {
      certain = true;
      refuse(setting, setting.spelled);
    }
  }
  if (refused.empty()) {
    return {};
  }
  return Finding{fmt::format("{} {} no flag of Megatron-LM, whose parser refuses it",
                             fmt::join(refused, ", "), refused.size() == 1 ? "is" : "are"),
                 fmt::format("use {}", fmt::join(right, ", ")),
                 certain ? std::nullopt : std::optional(Severity::kWarning)};
}

Found precision_given(const LaunchConfig& config, const LaunchCase&) {
  if (config.format != LaunchFormat::kMegatron || config.precision != "fp32" ||
      !config.unreadable.empty()) {  // it may stand in what could not be worked out
    return {};
  }
  return Finding{"neither --bf16 nor --fp16 is given: Megatron-LM trains in fp32",
                 "add --bf16 (or check with --precision bf16 where another file gives it)"};
}

// WrappedTorchNorm asserts both; Megatron-Core has no other RMSNorm outside Transformer Engine.
Found local_norm(const LaunchConfig& config, const LaunchCase& found) {
  if (!is_local(config) || text_setting(config, "normalization") != "RMSNorm") {
    return {};
  }
  if (found.plan.sequence_parallel) {
    return Finding{"local layers with RMSNorm have no sequence parallelism: the norm refuses it",
                   "use --transformer-impl transformer_engine, or leave out --sequence-parallel"};
  }
  if (!is_on(config, "no_persist_layer_norm")) {
    return Finding{
        "local layers with RMSNorm have no persistent norm kernel: the norm refuses it (as "
        "Apex's refuses RMSNorm where it is installed)",
        "add --no-persist-layer-norm"};
  }
  if (found.job.framework.gradient_accumulation_fusion) {
    return Finding{
        "local layers with RMSNorm have no fused gradient accumulation: it is Apex's, whose norm "
        "refuses RMSNorm where it is installed",
        "add --no-gradient-accumulation-fusion"};
  }
  return {};
}

Found local_context(const LaunchConfig& config, const LaunchCase& found) {
  if (!is_local(config) || found.plan.context == 1) {
    return {};
  }
  return Finding{
      fmt::format("local layers with cp {}: their attention refuses it", found.plan.context),
      "use --transformer-impl transformer_engine, or --context-parallel-size 1"};
}

// LocalSpecProvider gives the sequential experts, whatever --moe-grouped-gemm says.
Found local_experts(const LaunchConfig& config, const LaunchCase& found) {
  if (!is_local(config) || !found.job.model.moe) {
    return {};
  }
  return Finding{
      "local layers run experts one after the other (--moe-grouped-gemm has no effect): "
      "the step takes several times what is predicted here",
      "use --transformer-impl transformer_engine"};
}

Found local_rotation(const LaunchConfig& config, const LaunchCase& found) {
  if (!is_local(config) || found.job.model.position != models::Position::kRotary ||
      is_on(config, "no_rope_fusion")) {
    return {};
  }
  return Finding{
      "local layers rotate by Transformer Engine's fused kernel, and stop where it is not "
      "installed",
      "add --no-rope-fusion"};
}

Found local_attention(const LaunchConfig& config, const LaunchCase&) {
  if (text_setting(config, "attention_backend") != "local" ||
      text_setting(config, "spec") == "local") {
    return {};
  }
  return Finding{"--attention-backend local is refused without --spec local",
                 "use --attention-backend auto or unfused, or add --spec local"};
}

// get_train_valid_test_num_samples divides by it, whatever eval-iters is; its default of 1000
// became None in February 2026, and which release a file is for is not known.
Found evaluation(const LaunchConfig& config, const LaunchCase&) {
  if (config.format != LaunchFormat::kMegatron || config.program == MegatronProgram::kSwift ||
      config.program == MegatronProgram::kSlime || !has_setting(config, "eval_iters") ||
      has_setting(config, "eval_interval") || is_on(config, "full_validation") ||
      is_on(config, "skip_train") || is_older_megatron(config)) {
    return {};
  }
  return Finding{
      "--eval-iters is given without --eval-interval, whose default is None since February 2026: "
      "the start divides by it",
      "add --eval-interval 1000"};
}

constexpr LaunchRule kStartRules[] = {
    {"flags have values", Severity::kError, {}, values_given},
    {"flags that Megatron-LM knows", Severity::kError, {}, names_known},
    {"values that Megatron-LM takes", Severity::kError, {}, values_known},
    {"bf16 or fp16 is given", Severity::kWarning, {}, precision_given},
    {"local layers with RMSNorm", Severity::kError, {}, local_norm},
    {"local layers with cp", Severity::kError, {}, local_context},
    {"local experts run one by one", Severity::kWarning, {}, local_experts},
    {"local layers need --no-rope-fusion", Severity::kWarning, {}, local_rotation},
    {"attention-backend local needs spec local", Severity::kError, {}, local_attention},
    {"eval-iters needs eval-interval", Severity::kWarning, {}, evaluation},
};

}  // namespace

std::span<const LaunchRule> megatron_start_rules() {
  return kStartRules;
}

}  // namespace trireme::planner
