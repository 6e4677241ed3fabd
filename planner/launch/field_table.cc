#include "planner/launch/field_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace trireme::planner {
namespace {

// ---- text of people

// One character of UTF-8, or the byte alone where it begins none.
struct Character {
  std::uint32_t code = 0;
  std::size_t size = 1;
  bool valid = false;
};

Character character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i]));
  };
  const std::uint32_t first = byte(at);
  const std::size_t size = first < 0x80   ? 1
                           : first < 0xC2 ? 0
                           : first < 0xE0 ? 2
                           : first < 0xF0 ? 3
                           : first < 0xF5 ? 4
                                          : 0;
  if (size == 0 || at + size > text.size()) {
    return {first, 1, false};
  }
  std::uint32_t code = size == 1 ? first : first & (0x7FU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(at + i) & 0xC0U) != 0x80) {
      return {first, 1, false};
    }
    code = code << 6U | (byte(at + i) & 0x3FU);
  }
  const bool overlong = (size == 3 && code < 0x800) || (size == 4 && code < 0x10000);
  const bool outside = (code >= 0xD800 && code < 0xE000) || code > 0x10FFFF;
  return overlong || outside ? Character{first, 1, false} : Character{code, size, true};
}

// Ends a line or hides what follows somewhere: control characters, NEL, line and paragraph
// separators, marks of writing direction, the byte-order mark.
bool is_hidden(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 || code == 0x2029 ||
         (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
}

// `escape` writes a character that may not stand there as itself; empty: it may.
template <typename Escape>
std::string rewritten(std::string_view text, Escape escape) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    const std::string other = escape(character);
    out += other.empty() ? std::string(text.substr(at, character.size)) : other;
    at += character.size;
  }
  return out;
}

// ---- fields

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

std::string quoted_list(const TextList& items) {
  TextList all;
  std::transform(items.begin(), items.end(), std::back_inserter(all),
                 [](const std::string& item) { return planner::quoted(item); });
  return fmt::format("[{}]", fmt::join(all, ", "));
}

// What TOML, YAML and Python write alike; `yes` and `no` are the language's own.
std::string as_text(const FieldValue& value, const char* yes, const char* no) {
  return std::visit(Overloaded{[](std::monostate) { return std::string(); },
                               [&](bool on) { return std::string(on ? yes : no); },
                               [](std::int64_t number) { return std::to_string(number); },
                               [](double number) { return fmt::format("{}", number); },
                               [](const std::string& text) { return planner::quoted(text); },
                               [](const TextList& items) { return quoted_list(items); },
                               [](const Expression& expression) { return expression.text; }},
                    value);
}

// YAML 1.1 takes other words as they are, but these as true and false.
bool is_plain_yaml(const std::string& text) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  constexpr std::string_view kOther[] = {"no",  "NO",   "yes",   "YES", "on",
                                         "off", "true", "false", "null"};
  return text.find_first_not_of(kLetters) == std::string::npos && text.size() > 1 &&
         text.find_first_of("0123456789") != 0 &&
         std::find(std::begin(kOther), std::end(kOther), text) == std::end(kOther);
}

// section and name of "a.b.name"; no dot: no section.
std::pair<std::string_view, std::string_view> parts_of(std::string_view key) {
  const std::size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? std::pair{std::string_view(), key}
                                       : std::pair{key.substr(0, dot), key.substr(dot + 1)};
}

nlohmann::ordered_json as_json(const FieldValue& value) {
  return std::visit(Overloaded{[](std::monostate) { return nlohmann::ordered_json(); },
                               [](const Expression& number) {
                                 return nlohmann::ordered_json::parse(number.text);
                               },
                               [](const auto& plain) { return nlohmann::ordered_json(plain); }},
                    value);
}

}  // namespace

std::string printable(std::string_view text) {
  return rewritten(text, [](const Character& character) -> std::string {
    if (character.valid && !is_hidden(character.code)) {
      return "";
    }
    return character.code < 0x100 ? fmt::format("\\x{:02x}", character.code)
                                  : fmt::format("\\u{:04x}", character.code);
  });
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(text);
  }
  std::string word = "'";
  for (const char c : text) {
    word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return word + "'";
}

std::string quoted(std::string_view text) {
  return "\"" +
         rewritten(text,
                   [](const Character& character) -> std::string {
                     if (!character.valid) {
                       return "\\ufffd";
                     }
                     if (character.code == '"' || character.code == '\\') {
                       return std::string("\\") + static_cast<char>(character.code);
                     }
                     return is_hidden(character.code) ? fmt::format("\\u{:04x}", character.code)
                                                      : "";
                   }) +
         "\"";
}

FieldValue when(bool holds, FieldValue value) {
  return holds ? std::move(value) : FieldValue();
}

FieldWriter given(Condition holds, FieldWriter write) {
  return either(std::move(holds), std::move(write), nullptr);
}

FieldWriter either(Condition holds, FieldWriter write, FieldWriter otherwise) {
  return [holds = std::move(holds), write = std::move(write),
          otherwise = std::move(otherwise)](const LaunchPlan& launch) {
    return holds(launch) ? write(launch) : otherwise(launch);
  };
}

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::vector<std::string_view> names_in(std::string_view names) {
  return split_at(names, ' ');
}

bool is_among(std::string_view names, std::string_view name) {
  const std::vector<std::string_view> all = names_in(names);
  return std::find(all.begin(), all.end(), name) != all.end();
}

KnownKeys known_keys(std::span<const Field> table, std::string_view others,
                     std::string_view sections, std::string_view inside) {
  KnownKeys known{names_in(others), names_in(sections), names_in(inside)};
  for (const Field& field : table) {
    known.keys.push_back(field.key);
  }
  return known;
}

std::vector<std::pair<std::string_view, FieldValue>> written_fields(std::span<const Field> table,
                                                                    const LaunchPlan& launch) {
  std::vector<std::pair<std::string_view, FieldValue>> fields;
  for (const Field& field : table) {
    FieldValue value = field.write ? field.write(launch) : FieldValue();
    if (!std::holds_alternative<std::monostate>(value)) {
      fields.emplace_back(field.key, std::move(value));
    }
  }
  return fields;
}

std::string as_flag(std::string_view key, const FieldValue& value) {
  std::string flag = "--" + std::string(key);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return std::visit(
      Overloaded{[](std::monostate) { return std::string(); },
                 [&](bool on) { return on ? flag : std::string(); },
                 [&](const std::string& text) { return flag + " " + shell_word(text); },
                 [&](const Expression& text) { return flag + " " + shell_word(text.text); },
                 [&](const TextList& items) {
                   std::string all = flag;
                   for (const std::string& item : items) {
                     all += " " + shell_word(item);
                   }
                   return all;
                 },
                 [&](auto number) { return fmt::format("{} {}", flag, number); }},
      value);
}

std::string as_python(const FieldValue& value) {
  return as_text(value, "True", "False");
}

std::string as_toml(const FieldValue& value) {
  return as_text(value, "true", "false");
}

std::string as_yaml(const FieldValue& value) {
  const std::string* text = std::get_if<std::string>(&value);
  return text != nullptr && is_plain_yaml(*text) ? *text : as_text(value, "true", "false");
}

std::string toml_text(std::span<const Field> table, const LaunchPlan& launch) {
  std::string text;
  std::string_view open;
  for (const auto& [key, value] : written_fields(table, launch)) {
    const auto [section, name] = parts_of(key);
    if (section != open) {
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
      open = section;
    }
    text += fmt::format("{} = {}\n", name, as_toml(value));
  }
  return text;
}

std::string yaml_text(std::span<const Field> table, const LaunchPlan& launch) {
  std::string text;
  std::string_view open;
  for (const auto& [key, value] : written_fields(table, launch)) {
    const auto [section, name] = parts_of(key);
    if (section != open) {
      text += fmt::format("{}:\n", section);
      open = section;
    }
    text += fmt::format("{}{}: {}\n", section.empty() ? "" : "  ", name, as_yaml(value));
  }
  return text;
}

std::string json_text(std::span<const Field> table, const LaunchPlan& launch) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [key, value] : written_fields(table, launch)) {
    nlohmann::ordered_json* place = &json;
    std::string_view rest = key;
    for (std::size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      place = &(*place)[std::string(rest.substr(0, dot))];
      rest.remove_prefix(dot + 1);
    }
    (*place)[std::string(rest)] = as_json(value);
  }
  return json.dump(2) + "\n";
}

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

// "train_batch_size": {"a": 1}: what the program takes as one value counted as not said.
void refuse_sections_of_values(const LaunchConfig& config, const KnownKeys& known) {
  for (const LaunchSetting& setting : config.settings) {
    const std::string_view key = setting.key;
    for (std::size_t dot = key.find('.'); dot != std::string_view::npos && !is_known(known, key);
         dot = key.find('.', dot + 1)) {
      if (std::ranges::count(known.keys, key.substr(0, dot)) > 0) {
        throw Error(where_of(config, setting),
                    fmt::format("{} holds keys ({}); one value would be right", key.substr(0, dot),
                                key.substr(dot + 1)));
      }
    }
  }
}

}  // namespace

void check_keys(LaunchConfig& config, std::span<const Field> table, std::string_view others,
                std::string_view sections, std::string_view inside) {
  const KnownKeys known = known_keys(table, others, sections, inside);
  refuse_values_of_sections(config, known);
  refuse_sections_of_values(config, known);
  note_unknown(config, known);
}

}  // namespace trireme::planner
