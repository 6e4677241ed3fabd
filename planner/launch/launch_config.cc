#include "planner/launch/launch_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/edits.h"
#include "core/error.h"
#include "planner/launch/field_table.h"
#include "planner/shell/value.h"

namespace trireme::planner {
namespace {

const LaunchSetting* last_of(const std::vector<LaunchSetting>& settings, std::string_view key) {
  const auto found = std::find_if(settings.rbegin(), settings.rend(),
                                  [&](const LaunchSetting& setting) { return setting.key == key; });
  return found == settings.rend() ? nullptr : &*found;
}

bool is_null(const std::string& value) {
  return value == "None" || value == "null" || value == "~";
}

std::pair<std::string_view, std::string_view> section_and_name(std::string_view key) {
  const std::size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? std::pair(std::string_view(), key)
                                       : std::pair(key.substr(0, dot), key.substr(dot + 1));
}

// Axes are told apart by two letters: pp_size is no slip of tp_size.
bool is_another_axis(std::string_view name, std::string_view right) {
  const std::vector<std::string_view> words = split_at(name, '_');
  const std::vector<std::string_view> others = split_at(right, '_');
  if (words.size() != others.size()) {
    return false;
  }
  const auto [first, second] = std::ranges::mismatch(words, others);
  return first != words.end() && first->size() == 2 && second->size() == 2;
}

// A few letters wrong, or the end left off.
bool is_meant(std::string_view name, std::string_view right) {
  constexpr std::size_t kShortest = 8;  // of a beginning
  const bool begins = name.size() >= kShortest && name != right && right.starts_with(name);
  return begins || (is_a_slip(name, right) && !is_another_axis(name, right));
}

// A slip in the name of a known section, or in the section; else empty.
std::string meant_key(const KnownKeys& known, std::string_view key) {
  const auto [section, name] = section_and_name(key);
  std::string in_section;  // under the section that was meant, should no name be near
  const bool has_section = std::ranges::any_of(known.keys, [&](std::string_view right) {
    return section_and_name(right).first == section_and_name(key).first;
  });
  for (const std::string_view right : known.keys) {
    const auto [right_section, right_name] = section_and_name(right);
    if (section == right_section && is_meant(name, right_name)) {
      return std::string(right);
    }
    if (!has_section && is_a_slip(section, right_section)) {
      if (name == right_name || is_meant(name, right_name)) {
        return std::string(right);
      }
      in_section = fmt::format("{}.{}", right_section, name);
    }
  }
  return in_section;
}

// Digits may be grouped by underscores, as Python, TOML and YAML allow.
std::string without_underscores(std::string text) {
  std::erase(text, '_');
  return text;
}

}  // namespace

void refuse_setting(const LaunchConfig& config, const LaunchSetting& setting,
                    const std::string& right) {
  throw Error(where_of(config, setting),
              fmt::format("{} is '{}'; {} would be right", setting.spelled, setting.value, right));
}

const LaunchSetting* find_setting(const LaunchConfig& config, std::string_view key) {
  return last_of(config.settings, key);
}

bool has_setting(const LaunchConfig& config, std::string_view key) {
  const LaunchSetting* setting = find_setting(config, key);
  return setting != nullptr && !is_null(setting->value);
}

const LaunchSetting* find_variable(const LaunchConfig& config, std::string_view name) {
  return last_of(config.environment, name);
}

void add_arguments(const std::vector<std::string>& arguments, const std::string& example,
                   LaunchConfig& config) {
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.find('=');
    if (equals == std::string::npos) {
      throw Error(argument, fmt::format("is no KEY=VALUE; {} would be right", example));
    }
    const std::string key = argument.substr(0, equals);
    config.settings.push_back({key, argument.substr(equals + 1), key, 0});
  }
}

bool is_known(const KnownKeys& known, std::string_view key) {
  return std::ranges::count(known.keys, key) > 0 ||
         std::ranges::any_of(known.sections, [&](auto begin) { return key.starts_with(begin); });
}

void note_unknown(LaunchConfig& config, const KnownKeys& known) {
  KnownKeys inner;  // of sections that are taken whatever follows
  inner.keys = known.inside;
  inner.keys.insert(inner.keys.end(), known.keys.begin(), known.keys.end());
  for (const LaunchSetting& setting : config.settings) {
    const bool listed = std::ranges::count(inner.keys, setting.key) > 0;
    const bool taken = is_known(known, setting.key);
    std::string meant = listed ? "" : meant_key(taken ? inner : known, setting.key);
    if (!listed && !taken && meant.empty()) {
      meant = meant_key(inner, setting.key);
    }
    const bool same_section = section_and_name(meant).first == section_and_name(setting.key).first;
    if (!taken || (!meant.empty() && same_section)) {
      config.unknown.push_back(setting);
      config.unknown.back().meant = std::move(meant);
    }
  }
}

std::string line_of(const LaunchConfig& config, int line) {
  const auto file = static_cast<std::size_t>(line / kLinesOfFile);
  return fmt::format(
      "line {}{}", line % kLinesOfFile,
      file > 0 && file <= config.files.size() ? " of " + config.files[file - 1] : "");
}

std::string where_of(const LaunchConfig& config, const LaunchSetting& setting) {
  const auto file = static_cast<std::size_t>(setting.line / kLinesOfFile);
  return setting.line == 0
             ? fmt::format("{}: arguments", config.source)
             : fmt::format(
                   "{}:{}",
                   file > 0 && file <= config.files.size() ? config.files[file - 1] : config.source,
                   setting.line % kLinesOfFile);
}

std::optional<std::int64_t> integer_setting(const LaunchConfig& config, std::string_view key,
                                            std::int64_t low, std::int64_t high) {
  const LaunchSetting* found = find_setting(config, key);
  const bool flag = config.format == LaunchFormat::kMegatron;
  // int("None") of argparse; in YAML and Python it is no value
  const bool typed = flag && found != nullptr && found->spelled.starts_with("--");
  if (found == nullptr || (is_null(found->value) && !typed)) {
    return {};
  }
  const LaunchSetting& setting = *found;
  const std::string text = without_underscores(setting.value);
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  if (failure == std::errc() && stop == end && value >= low && value <= high) {
    return value;
  }
  // 5e8 of JSON, TOML and YAML; Python's int() of a flag takes neither that nor 2.0.
  if (const auto number = flag ? std::nullopt : number_setting(config, key);
      number && std::floor(*number) == *number && *number >= static_cast<double>(low) &&
      *number <= static_cast<double>(high)) {
    return static_cast<std::int64_t>(*number);
  }
  refuse_setting(config, setting, fmt::format("a whole number from {} to {}", low, high));
}

std::optional<double> number_setting(const LaunchConfig& config, std::string_view key) {
  if (!has_setting(config, key)) {
    return {};
  }
  const LaunchSetting& setting = *find_setting(config, key);
  const std::string text = without_underscores(setting.value);
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  if (failure != std::errc() || stop != end || !std::isfinite(value)) {
    refuse_setting(config, setting, "a number");
  }
  return value;
}

std::optional<bool> switch_setting(const LaunchConfig& config, std::string_view key) {
  if (!has_setting(config, key)) {
    return {};
  }
  const LaunchSetting& setting = *find_setting(config, key);
  std::string text = setting.value;
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (text.empty() || text == "true" || text == "1" || text == "yes" || text == "on") {
    return true;
  }
  if (text == "false" || text == "0" || text == "no" || text == "off") {
    return false;
  }
  refuse_setting(config, setting, "true or false");
}

bool is_on(const LaunchConfig& config, std::string_view key) {
  return switch_setting(config, key).value_or(false);
}

std::string in_capitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return text;
}

std::string text_setting(const LaunchConfig& config, std::string_view key,
                         const std::string& otherwise) {
  const LaunchSetting* setting = find_setting(config, key);
  return setting != nullptr && has_setting(config, key) ? setting->value : otherwise;
}

std::uint16_t recompute_modules_in(std::string names) {
  std::uint16_t modules = 0;
  names += ' ';
  std::size_t begin = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (std::string_view(" ,[]'\"").find(names[i]) == std::string_view::npos) {
      continue;
    }
    if (i > begin) {
      modules =
          static_cast<std::uint16_t>(modules | recompute_module_of(names.substr(begin, i - begin)));
    }
    begin = i + 1;
  }
  return modules;
}

void note_unpacked(LaunchConfig& config) {
  config.remarks.emplace_back(
      "samples are not packed: memory and step are those of samples of the full length, and "
      "shorter "
      "ones take less");
  config.unmodelled.emplace_back("the length of samples that are not packed");
}

}  // namespace trireme::planner
