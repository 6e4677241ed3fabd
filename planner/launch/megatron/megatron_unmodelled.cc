// Megatron-LM's settings (training/arguments.py, core/transformer/transformer_config.py) that are
// not modelled: what a verdict would rest on without them.
#include <fmt/format.h>

#include <algorithm>

#include "planner/launch/field_table.h"
#include "planner/launch/megatron/megatron.h"

namespace trireme::planner {
namespace {

// Other layers, or weights in other places, than the model that is counted has.
constexpr std::string_view kOtherModel =
    "experimental_attention_variant linear_attention_freq linear_attention_type "
    "attention_output_gate heterogeneous_layers_config_path "
    "heterogeneous_layers_config_encoded_json moe_latent_size enable_hyper_connections fp4 "
    "fp4_format fp4_param_gather";
// Less memory than is counted.
constexpr std::string_view kLessMemory = "freeze_LM freeze_lm";
// Of time, or of little memory.
constexpr std::string_view kWithoutEffect =
    "fp8_recipe enable_cuda_graph cuda_graph_impl external_cuda_graph no_bias_swiglu_fusion";

std::string text_of(const LaunchSetting& setting) {
  return setting.spelled + (setting.value.empty() ? "" : " " + setting.value);
}

// The settings of the list that say something, the last of each key.
std::vector<std::string> said(const LaunchConfig& config, std::string_view names) {
  std::vector<std::string> all;
  for (const LaunchSetting& setting : config.settings) {
    const bool off = is_among("None null none 0 false False", setting.value);
    if (is_among(names, setting.key) && !off && find_setting(config, setting.key) == &setting) {
      all.push_back(text_of(setting));
    }
  }
  return all;
}

// One product an expert: Megatron-LM groups them only where told.
void note_experts(LaunchConfig& config) {
  const bool own = config.format == LaunchFormat::kMegatron && has_setting(config, "num_experts") &&
                   config.program == MegatronProgram::kMegatron;
  if (own && !is_on(config, "moe_grouped_gemm")) {
    config.remarks.emplace_back(
        "without --moe-grouped-gemm the experts of a rank run one after the other: the step takes "
        "longer than what is predicted here, which is that of grouped products");
  }
  const std::string dispatcher =
      text_setting(config, "moe_token_dispatcher_type", own ? "allgather" : "alltoall");
  if (own && dispatcher == "allgather" && config.layout.expert.value_or(1) > 1) {
    config.remarks.emplace_back(
        "--moe-token-dispatcher-type allgather gathers the tokens of all expert ranks on each of "
        "them; it is modelled as alltoall");
  }
}

}  // namespace

bool offloads_layers(const LaunchConfig& config) {
  return is_on(config, "cpu_offloading") ||
         (config.format == LaunchFormat::kMegatron &&
          integer_setting(config, "cpu_offloading_num_layers", 0).value_or(0) > 0);
}

void note_unmodelled(LaunchConfig& config) {
  const std::vector<std::string> others = said(config, kOtherModel);
  config.foreign.insert(config.foreign.end(), others.begin(), others.end());
  for (std::string& setting : said(config, kLessMemory)) {
    config.unmodelled.push_back(std::move(setting));
  }
  if (const std::vector<std::string> idle = said(config, kWithoutEffect); !idle.empty()) {
    config.remarks.push_back(fmt::format("not modelled, and nothing here depends on {}: {}",
                                         idle.size() == 1 ? "it" : "them", fmt::join(idle, ", ")));
  }
  std::erase_if(config.unknown, [](const LaunchSetting& setting) {
    return is_among(kOtherModel, setting.key) || is_among(kLessMemory, setting.key) ||
           is_among(kWithoutEffect, setting.key);
  });
  note_experts(config);
}

}  // namespace trireme::planner
