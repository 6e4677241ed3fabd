// torchtitan's module_fqns_per_model_part: which modules each stage holds.
#include <algorithm>

#include "planner/launch/toml_settings.h"

namespace trireme::planner {

void read_module_parts(LaunchConfig& config) {
  const LaunchSetting* setting = find_setting(config, "parallelism.module_fqns_per_model_part");
  if (setting == nullptr || setting->value.empty()) {
    return;
  }
  // toml_settings joins inner arrays with '|'.
  LaunchLayout& layout = config.layout;
  layout.stage_layers = {0};
  std::string_view rest = setting->value;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find_first_of(" |"), rest.size());
    layout.stage_layers.back() += rest.substr(0, end).starts_with("layers.") ? 1 : 0;
    if (end < rest.size() && rest[end] == '|') {
      layout.stage_layers.push_back(0);
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const auto stages = static_cast<std::int64_t>(layout.stage_layers.size());
  const std::int64_t pipeline = layout.pipeline.value_or(1);
  if (stages % pipeline == 0) {
    layout.virtual_pipeline = std::max<std::int64_t>(1, stages / pipeline);
    layout.layers_per_virtual_stage = 0;
  }
}

}  // namespace trireme::planner
