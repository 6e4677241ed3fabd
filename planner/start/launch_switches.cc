#include "planner/start/launch_switches.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "planner/start/launch_rules.h"

namespace trireme::planner {
namespace {

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \"");
  const auto last = text.find_last_not_of(" \",");
  return first == std::string_view::npos ? "" : std::string(text.substr(first, last - first + 1));
}

// "--cross-entropy-fusion-impl native": a name with underscores, and a value or nothing.
LaunchSetting of_argument(std::string_view flag) {
  const auto cut = flag.find(' ');
  std::string name(flag.substr(2, cut == std::string_view::npos ? cut : cut - 2));
  std::replace(name.begin(), name.end(), '-', '_');
  const std::string value = cut == std::string_view::npos ? "" : trimmed(flag.substr(cut));
  return {name, value, std::string(flag)};
}

// "[section] key = value", "\"key\": value".
LaunchSetting of_line(std::string_view line) {
  std::string section;
  if (line.starts_with('[')) {
    const auto end = line.find(']');
    section = std::string(line.substr(1, end - 1)) + ".";
    line.remove_prefix(end + 1);
  }
  const auto cut = line.find_first_of("=:");
  return {section + trimmed(line.substr(0, cut)), trimmed(line.substr(cut + 1)), std::string(line)};
}

// PYTORCH_CUDA_ALLOC_CONF=…
bool is_environment(std::string_view flag) {
  return flag.find("_CONF=") != std::string_view::npos;
}

void add(const LaunchSwitch& one, LaunchConfig& config, LaunchOptions& options) {
  constexpr std::string_view kWithout = "without --";
  constexpr std::string_view kPrecision = "precision=";
  if (one.flag.starts_with(kWithout)) {
    const LaunchSetting off = of_argument(one.flag.substr(kWithout.size() - 2));
    std::erase_if(config.settings,
                  [&](const LaunchSetting& setting) { return setting.key == off.key; });
  } else if (one.flag.starts_with("--")) {
    config.settings.push_back(of_argument(one.flag));
  } else if (is_environment(one.flag)) {
    config.environment.push_back(of_line(one.flag));
  } else {
    config.settings.push_back(of_line(one.flag));
  }
  if (one.setting.starts_with(kPrecision)) {
    options.precision = one.setting.substr(kPrecision.size());
  } else {
    options.settings.emplace_back(one.setting);
  }
}

// The errors that `check` would report; a case that cannot be made is one.
std::set<std::string> errors_of(const LaunchConfig& config, const LaunchOptions& options) {
  std::set<std::string> errors;
  try {
    LaunchCase found = make_launch_case(config, options);
    found.is_trial = true;
    for (const LaunchViolation& violation : check_launch(config, found).violations) {
      if (violation.severity == Severity::kError) {
        errors.insert(violation.rule);
      }
    }
  } catch (const Error& error) {
    errors.insert(error.what());
  }
  return errors;
}

}  // namespace

std::string_view with_recompute(LaunchFormat format, std::string_view plugin) {
  constexpr std::string_view kInScript = "gradient_checkpointing_enable() in the training script";
  switch (format) {
    case LaunchFormat::kMegatron:
      return "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1";
    case LaunchFormat::kMegatronBridge:
      return "model.recompute_granularity=full model.recompute_method=uniform "
             "model.recompute_num_layers=1";
    case LaunchFormat::kTorchtitan:
      return "[activation_checkpoint] mode = \"full\"";
    case LaunchFormat::kDeepspeed:
      return kInScript;
    case LaunchFormat::kAccelerate:
      return plugin == "megatron"    ? ""  // it has selective recompute alone
             : plugin == "deepspeed" ? kInScript
                                     : "fsdp_activation_checkpointing: true";
  }
  return "";
}

std::string_view without_recompute(LaunchFormat format, std::string_view plugin) {
  switch (format) {
    case LaunchFormat::kMegatron:
      return "without --recompute-granularity";
    case LaunchFormat::kMegatronBridge:
      return "model.recompute_granularity=null";
    case LaunchFormat::kTorchtitan:
      return "[activation_checkpoint] mode = \"none\"";
    case LaunchFormat::kDeepspeed:
      return "no gradient_checkpointing_enable()";
    case LaunchFormat::kAccelerate:
      return plugin == "megatron"    ? "megatron_lm_recompute_activations: false"
             : plugin == "deepspeed" ? "no gradient_checkpointing_enable()"
                                     : "fsdp_activation_checkpointing: false";
  }
  return "";
}

std::string_view without_offload(LaunchFormat format, std::string_view plugin) {
  switch (format) {
    case LaunchFormat::kMegatron:
      return "without --optimizer-cpu-offload and --cpu-offloading";
    case LaunchFormat::kMegatronBridge:
      return "optimizer.optimizer_cpu_offload=false";
    case LaunchFormat::kTorchtitan:
      return "[training] enable_cpu_offload = false";
    case LaunchFormat::kDeepspeed:
      return "without \"offload_optimizer\" and \"offload_param\"";
    case LaunchFormat::kAccelerate:
      return plugin == "deepspeed" ? "offload_optimizer_device: none, offload_param_device: none"
                                   : "fsdp_offload_params: false";
  }
  return "";
}

bool is_beside(LaunchFormat format, std::string_view flag) {
  return format != LaunchFormat::kMegatron && is_environment(flag);
}

std::string_view sharded_optimizer(LaunchFormat format) {
  return format == LaunchFormat::kMegatron         ? "--use-distributed-optimizer"
         : format == LaunchFormat::kMegatronBridge ? "ddp.use_distributed_optimizer=true"
                                                   : "";
}

std::vector<bool> switches_that_hold(const LaunchConfig& config, const LaunchOptions& options,
                                     const std::vector<LaunchSwitch>& switches) {
  const std::set<std::string> before = errors_of(config, options);
  const auto holds = [&](const LaunchSwitch& one, LaunchConfig& with, LaunchOptions& beside) {
    add(one, with, beside);
    const std::set<std::string> then = errors_of(with, beside);
    return std::includes(before.begin(), before.end(), then.begin(), then.end());
  };
  LaunchConfig taken = config;
  LaunchOptions taken_options = options;
  std::vector<bool> hold;
  for (const LaunchSwitch& one : switches) {
    LaunchConfig alone = config;
    LaunchOptions alone_options = options;
    LaunchConfig together = taken;
    LaunchOptions together_options = taken_options;
    hold.push_back(holds(one, alone, alone_options) && holds(one, together, together_options));
    if (hold.back()) {
      taken = std::move(together);
      taken_options = std::move(together_options);
    }
  }
  return hold;
}

}  // namespace trireme::planner
