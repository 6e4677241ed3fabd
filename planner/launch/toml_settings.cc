#ifdef TRIREME_HAVE_TOML

#include "planner/launch/settings_text.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <sstream>

#include "core/error.h"

namespace trireme::planner {
namespace {

std::string value_text(const toml::node& node) {
  if (const auto text = node.value<std::string>(); text && node.is_string()) {
    return *text;
  }
  if (node.is_boolean()) {
    return node.value_or(false) ? "true" : "false";
  }
  if (node.is_integer()) {
    return std::to_string(node.value_or<std::int64_t>(0));
  }
  if (node.is_floating_point()) {
    return fmt::format("{}", node.value_or(0.0));
  }
  if (const toml::array* list = node.as_array(); list != nullptr) {
    std::string all;
    for (const toml::node& element : *list) {
      const char* joint = element.is_array() ? "|" : " ";
      all += (&element == &list->front() ? "" : joint) + value_text(element);
    }
    return all;
  }
  return "";
}

void add_table(const toml::table& table, const std::string& path, int depth, LaunchConfig& config) {
  if (depth > 20) {
    throw Error(config.source, "has too many tables in tables");
  }
  for (const auto& [key, node] : table) {
    const std::string name =
        path.empty() ? std::string(key.str()) : fmt::format("{}.{}", path, key.str());
    if (const toml::table* inner = node.as_table(); inner != nullptr) {
      add_table(*inner, name, depth + 1, config);
    } else {
      config.settings.push_back(
          {name, value_text(node), name, static_cast<int>(node.source().begin.line)});
    }
  }
}

}  // namespace

bool reads_toml() {
  return true;
}

void read_toml_settings(std::string_view text, LaunchConfig& config) {
  try {
    add_table(toml::parse(text), "", 0, config);
  } catch (const toml::parse_error& error) {
    throw Error(fmt::format("{}:{}", config.source, error.source().begin.line),
                fmt::format("{}; TOML would be right", error.description()));
  }
}

}  // namespace trireme::planner

#else  // the program is built without toml++

#include "core/error.h"
#include "planner/launch/settings_text.h"

namespace trireme::planner {

bool reads_toml() {
  return false;
}

void read_toml_settings(std::string_view, LaunchConfig& config) {
  throw Error(
      config.source,
      "TOML cannot be read: this program was built without toml++; install libtomlplusplus-dev and "
      "build it again",
      ErrorKind::kMissingMachine);
}

}  // namespace trireme::planner

#endif
