#include "tools/switches_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "planner/plan/framework.h"
#include "tools/table.h"

namespace trireme::tools {
namespace {

// "fused loss; --set cross_entropy_fusion=true": what it is, and how a command here is told.
std::string told_here(const planner::Switch& one) {
  const std::string_view key = one.setting.substr(0, one.setting.find('='));
  if (key == "precision") {
    return fmt::format("{}; --precision {}", one.name, one.setting.substr(key.size() + 1));
  }
  const std::vector<std::string> keys = planner::setting_names();
  const bool is_setting = std::find(keys.begin(), keys.end(), key) != keys.end();
  return is_setting ? fmt::format("{}; --set {}", one.name, one.setting) : std::string(one.name);
}

}  // namespace

Json switch_json(const planner::SwitchGain& gain) {
  return {{"name", gain.which.name},
          {"flag", gain.which.flag},
          {"setting", gain.which.setting},
          {"gain_seconds", gain.gain_seconds},
          {"best_without_seconds",
           gain.best_without_seconds ? Json(*gain.best_without_seconds) : Json()},
          {"changes_numerics", gain.which.changes_numerics},
          {"applied", gain.applied},
          {"decides_fit", gain.decides_fit},
          {"makes_fit", gain.makes_fit},
          {"fit_without", to_string(gain.fit_without)}};
}

Json switches_json(const std::vector<planner::SwitchGain>& gains) {
  Json json = Json::array();
  for (const planner::SwitchGain& gain : gains) {
    json.push_back(switch_json(gain));
  }
  return json;
}

std::string switch_words(const planner::SwitchGain& gain) {
  const std::string flag(gain.which.flag);
  const std::string by = flag.starts_with("without ") ? flag : "by " + flag;
  const std::string other = gain.best_without_seconds
                                ? fmt::format("; the best layout without it takes {} {}",
                                              duration_text(std::abs(*gain.best_without_seconds)),
                                              *gain.best_without_seconds < 0 ? "less" : "more")
                                : "";
  const std::string told = fmt::format("{} ({}{})", by, told_here(gain.which), other);
  if (planner::is_idle(gain)) {
    return fmt::format("{} ({})", flag, told_here(gain.which));
  }
  if (!gain.makes_fit) {
    return fmt::format("-{} {}", duration_text(gain.gain_seconds), told);
  }
  const char* otherwise = gain.fit_without == planner::Fit::kNo
                              ? "does not fit"
                              : "is at risk of running out of memory";
  if (!gain.applied) {
    return fmt::format("fits {}", told);
  }
  return fmt::format("fits {}: without it this layout {}, and {}", told, otherwise,
                     gain.decides_fit ? "so does every other"
                                      : fmt::format("the best of the others takes {} more",
                                                    duration_text(gain.gain_seconds)));
}

void print_switches(const Console& console, const std::vector<planner::SwitchGain>& gains,
                    const char* heading, bool (*wanted)(const planner::SwitchGain&)) {
  std::vector<std::string> list;
  for (const planner::SwitchGain& gain : gains) {
    if (wanted(gain)) {
      list.push_back(switch_words(gain));
    }
  }
  if (!list.empty()) {
    fmt::print(console.out, "{}: {}\n", heading, fmt::join(list, "; "));
  }
}

void print_switched_on(const Console& console, const std::vector<planner::SwitchGain>& gains,
                       const char* heading) {
  print_switches(console, gains, heading, is_applied);
  print_switches(console, gains, "on as well, though this layout's time gains nothing by it",
                 planner::is_idle);
}

std::string told_switches(const planner::Job& job, const planner::Estimate& told,
                          const std::vector<std::string>& given) {
  if (planner::switches_of(job, given).empty()) {
    return {};
  }
  const planner::SwitchedPlan then = planner::switched_for(job, told.plan, given);
  const std::string_view name = job.framework.name;
  std::string settings;
  for (const planner::SwitchGain& gain : then.switches) {
    settings += is_applied(gain) ? fmt::format(" --set {}", gain.which.setting) : "";
  }
  if (settings.empty()) {
    return fmt::format("switches: as {} starts and --set says; `plan` has none that would help",
                       name);
  }
  return fmt::format(
      "switches: as {} starts and --set says; with those that `plan` switches on this layout takes "
      "{}, {}:{}",
      name, duration_text(then.estimate.time.step_seconds), verdict(then.estimate.memory),
      settings);
}

std::string fitting_switches(const planner::Job& job, const planner::Plan& plan,
                             const std::vector<std::string>& given) {
  const auto then = planner::switches_that_fit(job, plan, given);
  if (!then || then->estimate.memory.fit == planner::Fit::kNo) {
    return {};
  }
  std::string settings;
  bool changes = false;
  for (const planner::SwitchGain& gain : then->switches) {
    settings += fmt::format(" --set {}", gain.which.setting);
    changes |= gain.which.changes_numerics;
  }
  const planner::MemoryEstimate& memory = then->estimate.memory;
  return fmt::format("it {} with{}{}: {:.1f} to {:.1f} of {:.1f} GiB, {}",
                     memory.fit == planner::Fit::kFits ? "fits" : "is at risk", settings,
                     changes ? " (changes numerics)" : "", memory.reserved_low_gib,
                     memory.reserved_high_gib, memory.capacity_gib,
                     duration_text(then->estimate.time.step_seconds));
}

Json told_switches_json(const planner::Job& job, const planner::Plan& plan,
                        const std::vector<std::string>& given) {
  const planner::SwitchedPlan then = planner::switched_for(job, plan, given);
  return {{"step_seconds", then.estimate.time.step_seconds},
          {"fit", to_string(then.estimate.memory.fit)},
          {"switches", switches_json(then.switches)}};
}

}  // namespace trireme::tools
