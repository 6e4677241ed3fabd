// Primus' YAML that starts torchtitan: its overrides are torchtitan's settings under their own
// names, over Primus' files (primus/configs/modules/torchtitan/pre_trainer.yaml and
// primus/configs/models/torchtitan of its repository, summer 2026).
#include <fmt/format.h>

#include <map>
#include <utility>

#include "models/model_names.h"
#include "models/presets.h"
#include "planner/launch/field_table.h"
#include "planner/launch/torchtitan.h"
#include "planner/launch/yaml_kinds.h"

namespace trireme::planner {
namespace {

// What Primus sets otherwise than torchtitan's own defaults.
constexpr std::pair<const char*, const char*> kPrimusOfTitan[] = {
    {"activation_checkpoint.mode", "none"},
    {"compile.enable", "true"},
    {"compile.components", "model loss"}};

// What Primus adds to torchtitan's settings (primus/backends/torchtitan/primus_turbo_extensions),
// and its log's, which stand in no section.
bool is_of_primus(std::string_view key) {
  return key == "training.mock_data" || key.starts_with("primus_turbo.") ||
         key.find('.') == std::string_view::npos;
}

// The converters without Primus' own, which swaps kernels.
std::string torchtitans_own(const std::string& converters) {
  std::string own;
  for (const std::string_view name : names_in(converters)) {
    own += name == "primus_turbo" ? "" : fmt::format("{}{}", own.empty() ? "" : " ", name);
  }
  return own.empty() ? "null" : own;
}

std::vector<LaunchSetting> settings_in(std::string_view text, const std::string& name,
                                       LaunchConfig& config) {
  LaunchConfig yaml;
  yaml.source = name;
  read_yaml_settings(text, yaml);
  config.remarks.insert(config.remarks.end(), yaml.remarks.begin(), yaml.remarks.end());
  return std::move(yaml.settings);
}

}  // namespace

LaunchConfig read_primus_titan(std::string_view text, const std::string& source,
                               const std::vector<std::string>& arguments,
                               const LaunchReading& reading) {
  constexpr std::string_view kOverrides = ".overrides.";
  LaunchConfig config;
  config.source = source;
  std::map<std::string, LaunchSetting> last;
  for (const auto& [key, value] : kPrimusOfTitan) {
    last[key] = {key, value, key};
  }
  const std::string name = flag_yaml_model(text, source);
  const auto model =
      reading.read ? reading.read(fmt::format("primus/configs/models/torchtitan/{}.yaml", name))
                   : std::nullopt;
  if (model) {
    for (LaunchSetting& setting : settings_in(*model, name, config)) {
      setting.line = 0;  // of another file
      last[setting.key] = std::move(setting);
    }
  }
  for (LaunchSetting& setting : settings_in(text, source, config)) {
    const std::size_t at = setting.key.find(kOverrides);
    setting.key.erase(0, at == std::string::npos ? at : at + kOverrides.size());
    if (!is_of_primus(setting.key)) {
      last[setting.key] = std::move(setting);
    }
  }
  for (auto& [key, setting] : last) {
    setting.value = key == "model.converters" ? torchtitans_own(setting.value)
                                              : without_variable(setting.value);
    if (!is_among("null None ~", setting.value)) {
      config.settings.push_back(std::move(setting));
    }
  }
  config = read_torchtitan_settings(std::move(config), arguments);
  if (config.model_name.empty()) {
    config.model_said = name;
    config.model_name = models::preset_in(name);
  }
  return config;
}

}  // namespace trireme::planner
