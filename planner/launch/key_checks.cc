#include "planner/launch/key_checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace trireme::planner {
namespace {

void refuse_values_of_sections(const LaunchConfig& config, const KnownKeys& known) {
  for (const LaunchSetting& setting : config.settings) {
    const std::string inside = setting.key + ".";
    const auto is_inside = [&](std::string_view key) { return key.starts_with(inside); };
    const bool section = std::ranges::any_of(known.keys, is_inside) ||
                         std::ranges::any_of(known.inside, is_inside) ||
                         std::ranges::count(known.sections, inside) > 0;
    const bool none = setting.value == "null" || setting.value == "{}" || setting.value.empty();
    if (section && !none && std::ranges::count(known.keys, setting.key) == 0) {
      throw Error(where_of(config, setting),
                  fmt::format("{} is {}; an object of its keys would be right", setting.key,
                              setting.value));
    }
  }
}

}  // namespace

void check_keys(LaunchConfig& config, std::span<const Field> table, std::string_view others,
                std::string_view sections, std::string_view inside) {
  const KnownKeys known = known_keys(table, others, sections, inside);
  refuse_values_of_sections(config, known);
  note_unknown(config, known);
}

}  // namespace trireme::planner
