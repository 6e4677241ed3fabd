#include "tools/switches_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/plan/framework.h"
#include "tools/table.h"

namespace trireme::tools {

Json switch_json(const planner::SwitchGain& gain) {
  return {{"name", gain.which.name},
          {"flag", gain.which.flag},
          {"setting", gain.which.setting},
          {"gain_seconds", gain.gain_seconds},
          {"changes_numerics", gain.which.changes_numerics},
          {"applied", gain.applied},
          {"decides_fit", gain.decides_fit}};
}

Json switches_json(const std::vector<planner::SwitchGain>& gains) {
  Json json = Json::array();
  for (const planner::SwitchGain& gain : gains) {
    json.push_back(switch_json(gain));
  }
  return json;
}

std::string switch_words(const planner::Switch& one) {
  const std::string_view key = one.setting.substr(0, one.setting.find('='));
  if (key == "precision") {
    return fmt::format("{}; --precision {}", one.name, one.setting.substr(key.size() + 1));
  }
  const std::vector<std::string> keys = planner::setting_names();
  const bool is_setting = std::find(keys.begin(), keys.end(), key) != keys.end();
  return is_setting ? fmt::format("{}; --set {}", one.name, one.setting) : std::string(one.name);
}

void print_switches(const Console& console, const std::vector<planner::SwitchGain>& gains,
                    bool applied, const char* heading) {
  std::vector<std::string> list;
  for (const planner::SwitchGain& gain : gains) {
    if (gain.applied == applied) {
      const std::string words = switch_words(gain.which);
      const bool leaves_out = gain.which.flag.starts_with("without ");
      list.push_back(gain.decides_fit
                         ? fmt::format("nothing fits without {} ({})", gain.which.flag, words)
                         : fmt::format("-{} {}{} ({})", duration_text(gain.gain_seconds),
                                       leaves_out ? "" : "by ", gain.which.flag, words));
    }
  }
  if (!list.empty()) {
    fmt::print(console.out, "{}: {}\n", heading, fmt::join(list, "; "));
  }
}

}  // namespace trireme::tools
