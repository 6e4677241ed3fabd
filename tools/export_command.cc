#include "tools/export_command.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/presets.h"
#include "planner/launch/field_table.h"
#include "planner/plan/names.h"
#include "tools/switches_report.h"

namespace trireme::tools {
namespace {

std::string model_of(const CheckRequest& request, const CheckReport& report) {
  if (!request.launch.model.empty()) {
    return request.launch.model;
  }
  const std::vector<std::string> presets = models::preset_names();
  const std::string& name = report.found.job.model.name;
  return std::find(presets.begin(), presets.end(), name) != presets.end() ? name : "MODEL";
}

const char* extension_of(planner::LaunchFormat format) {
  switch (format) {
    case planner::LaunchFormat::kMegatron:
      return "sh";
    case planner::LaunchFormat::kTorchtitan:
      return "toml";
    case planner::LaunchFormat::kDeepspeed:
      return "json";
    case planner::LaunchFormat::kMegatronBridge:
      return "py";
    case planner::LaunchFormat::kAccelerate:
      return "yaml";
  }
  return "sh";
}

}  // namespace

std::string export_command(const CheckRequest& request, const CheckReport& report,
                           const planner::SwitchedSearch& found, const planner::Plan& plan,
                           planner::LaunchFormat format) {
  const planner::Job& job = found.job;
  std::string text = "trireme export";
  const auto add = [&](const char* option, const std::string& value) {
    text += fmt::format(" {} {}", option, planner::shell_word(value));
  };
  add("--format", std::string(planner::to_string(format)));
  add("--model", model_of(request, report));
  add("--cluster", request.launch.cluster);
  if (report.found.world != report.found.cluster_gpus) {
    add("--gpus", std::to_string(report.found.world));
  }
  add("--framework", planner::full_name(job.framework));
  add("--seq", std::to_string(job.sequence));
  add("--global-batch", std::to_string(job.global_batch));
  add("--precision", std::string(planner::kPrecisionNames.name_of(job.precision)));
  if (job.optimizer != planner::Optimizer::kAdam) {
    add("--optimizer", std::string(planner::kOptimizerNames.name_of(job.optimizer)));
  }
  if (job.attention != models::AttentionKernel::kFlash) {
    add("--attention", std::string(planner::kAttentionNames.name_of(job.attention)));
  }
  if (job.offload.any()) {
    add("--offload", planner::to_text(job.offload));
  }
  if (!request.launch.calibration.empty()) {
    add("--calibration", request.launch.calibration);
  }
  add("--layout", planner::short_form(plan));
  std::vector<std::string> settings = report.config.choices;
  settings.insert(settings.end(), request.launch.settings.begin(), request.launch.settings.end());
  for (const planner::SwitchGain& gain : found.switches) {
    if (is_applied(gain)) {
      settings.emplace_back(gain.which.setting);
    }
  }
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const std::string key = settings[i].substr(0, settings[i].find('=') + 1);
    const bool said_later =
        std::any_of(settings.begin() + static_cast<std::ptrdiff_t>(i) + 1, settings.end(),
                    [&](const std::string& s) { return s.starts_with(key); });
    if (!said_later) {
      add("--set", settings[i]);
    }
  }
  return text + fmt::format(" -o better.{}", extension_of(format));
}

}  // namespace trireme::tools
