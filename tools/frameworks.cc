// `trireme frameworks`: whose behaviour can be modelled, by release, and what each choice of
// `--set` means.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "planner/plan/framework_versions.h"
#include "tools/commands.h"
#include "tools/report.h"
#include "tools/table.h"

namespace trireme::tools {
namespace {

using planner::Framework;
using planner::FrameworkVersion;

struct FrameworksArguments {
  std::string name;
  bool settings = false;
  bool json = false;
};

std::string spec_of(const FrameworkVersion& label) {
  return label.version.empty() ? label.name : label.name + "@" + label.version;
}

// A value of a setting as JSON reads it: a number, a switch or a word.
Json value_json(const std::string& text) {
  const Json parsed = Json::parse(text, nullptr, false);
  return parsed.is_discarded() ? Json(text) : parsed;
}

Json settings_json(const Framework& framework) {
  Json json = Json::object();
  for (const planner::Setting& setting : planner::settings()) {
    const std::string value = planner::setting_value(framework, setting.name);
    if (!value.empty()) {
      json[setting.name] = value_json(value);
    }
  }
  return json;
}

Json version_json(const FrameworkVersion& label) {
  return {{"name", label.name},
          {"version", label.version.empty() ? Json(nullptr) : Json(label.version)},
          {"since", label.since.empty() ? Json(nullptr) : Json(label.since)},
          {"summary", label.summary},
          {"source", label.source},
          {"settings", settings_json(planner::find_framework(spec_of(label)))}};
}

// Those of `name` or NAME@VERSION; all when it is empty. Throws Error when there is none.
std::vector<FrameworkVersion> chosen(const std::string& name) {
  if (!name.empty()) {
    const Framework framework = planner::find_framework(name);
    std::vector<FrameworkVersion> found;
    for (const FrameworkVersion& label : planner::framework_versions()) {
      if (label.name == framework.name &&
          (name.find('@') == std::string::npos || label.version == framework.version)) {
        found.push_back(label);
      }
    }
    return found;
  }
  return planner::framework_versions();
}

void print_versions(const Console& console, const std::vector<FrameworkVersion>& labels) {
  Table table{
      .head = {"framework", "since", "what it does", "source"}, .rows = {}, .text_columns = 4};
  for (const FrameworkVersion& label : labels) {
    table.rows.push_back({spec_of(label), label.since, label.summary, label.source});
  }
  print_table(console, table);
}

// Every choice with its value in `framework`, what it means and what the frameworks call it.
void print_settings(const Console& console, const Framework& framework) {
  Table table{
      .head = {"setting", full_name(framework), "what it means", "the frameworks' own switch"},
      .rows = {},
      .text_columns = 4};
  for (const planner::Setting& setting : planner::settings()) {
    table.rows.push_back({setting.name, planner::setting_value(framework, setting.name),
                          setting.help, setting.flag});
  }
  print_table(console, table);
}

int run(const FrameworksArguments& options, Console& console) {
  const std::vector<FrameworkVersion> labels = chosen(options.name);
  if (options.json) {
    Json list = Json::array();
    for (const FrameworkVersion& label : labels) {
      list.push_back(version_json(label));
    }
    Json help = Json::array();
    for (const planner::Setting& setting : planner::settings()) {
      help.push_back({{"name", setting.name}, {"help", setting.help}, {"flag", setting.flag}});
    }
    print_json(console, "frameworks", {{"frameworks", list}, {"settings", help}});
  } else if (options.settings) {
    print_settings(console,
                   planner::find_framework(options.name.empty() ? "trireme" : options.name));
  } else {
    print_versions(console, labels);
  }
  return kDone;
}

}  // namespace

void add_frameworks_command(Command& app, Program& program) {
  auto options = std::make_shared<FrameworksArguments>();
  Command* command = add_command(
      app, program, "frameworks",
      "lists the frameworks and versions whose behaviour is modelled, and their choices",
      "trireme frameworks torchtitan@0.2.2 --settings");
  command->add_option("name", options->name, "one framework, or one version of it")
      ->type_name("NAME[@VERSION]");
  command->add_flag("--settings", options->settings,
                    "every choice of --set: its value, what it means, the frameworks' own switch");
  command->add_flag("--json", options->json, "JSON on stdout");
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
