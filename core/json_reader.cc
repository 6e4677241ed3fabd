#include "core/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/files.h"
#include "core/json_scan.h"
#include "core/quantity.h"

namespace trireme {
namespace {

std::size_t line_of_byte(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  return 1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
}

// nlohmann's message is "[its own id] parse error at line L, column C: reason"; keep the reason.
std::string parse_reason(const std::string& message) {
  const auto position = message.find("column");
  const auto cut = message.find(": ", position == std::string::npos ? 0 : position);
  return cut == std::string::npos ? message : message.substr(cut + 2);
}

// A value as an error message shows it: whole when short, never the content of a list or object.
std::string shown(const nlohmann::json& value) {
  constexpr std::size_t kShownMax = 60;
  if (value.is_structured()) {
    return value.is_array() ? "a list" : "an object";
  }
  const std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true);
  return text.size() <= kShownMax ? text : text.substr(0, kShownMax) + "…";
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& name) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    throw Error(name, "is empty; a JSON object is expected");
  }
  // Some versions of nlohmann/json take a first byte 0 for the end of the text.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw Error(fmt::format("{}:{}", name, line_of_byte(text, zero)),
                "is not valid JSON: it has a byte 0, which no text has");
  }
  constexpr int kDeepest = 200;  // the readers below recurse
  const JsonScan scan = scan_json(text);
  if (scan.depth > kDeepest) {
    throw Error(name, fmt::format("nests lists and objects more than {} deep", kDeepest));
  }
  try {
    nlohmann::json json = nlohmann::json::parse(text);
    if (scan.repeated) {
      throw Error(
          fmt::format("{}:{}", name, scan.repeated->line),
          fmt::format("has the key '{}' a second time; each may stand once", scan.repeated->key));
    }
    return json;
  } catch (const nlohmann::json::parse_error& error) {
    throw Error(fmt::format("{}:{}", name, line_of_byte(text, error.byte)),
                "is not valid JSON: " + parse_reason(error.what()));
  } catch (const nlohmann::json::out_of_range&) {
    throw Error(name, "holds a number beyond the range of a double");
  }
}

nlohmann::json read_json_file(const std::string& path) {
  std::error_code failed;
  if (std::filesystem::is_character_file(path, failed)) {
    throw Error(path, "is a device; a JSON file would be right");
  }
  return parse_json(read_file(path, "a JSON file"), path);
}

JsonReader::JsonReader(const nlohmann::json& json, std::string where)
    : json_(&json), where_(std::move(where)) {
  if (!json.is_object()) {
    throw Error(where_, fmt::format("is {}; a JSON object is expected", json.type_name()));
  }
}

bool JsonReader::has(const std::string& key) const {
  const auto found = json_->find(key);
  return found != json_->end() && !found->is_null();
}

std::string JsonReader::where(const std::string& key) const {
  return where_ + (where_.find('#') == std::string::npos ? "#/" : "/") + key;
}

void JsonReader::fail(const std::string& key, const std::string& what) const {
  throw Error(where(key), what);
}

const nlohmann::json& JsonReader::require(const std::string& key) {
  seen_.insert(key);
  const auto found = json_->find(key);
  if (found == json_->end() || found->is_null()) {
    fail(key, "is missing; it is required");
  }
  return *found;
}

const nlohmann::json& JsonReader::raw(const std::string& key) {
  return require(key);
}

void JsonReader::ignore(const std::string& key) {
  seen_.insert(key);
}

std::string JsonReader::text(const std::string& key) {
  const nlohmann::json& value = require(key);
  if (!value.is_string()) {
    fail(key, fmt::format("is {}; a string is expected", shown(value)));
  }
  return value.get<std::string>();
}

std::int64_t JsonReader::integer(const std::string& key, std::int64_t low, std::int64_t high) {
  const nlohmann::json& value = require(key);
  // From 2^53 on a number with a point or exponent is none of the whole numbers around it.
  constexpr double kExact = 9007199254740992.0;
  std::int64_t whole = 0;
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    if (number != std::floor(number) || std::abs(number) >= kExact) {
      fail(key, fmt::format("is {}; a whole number is expected", shown(value)));
    }
    whole = static_cast<std::int64_t>(number);
  } else if (!value.is_number() ||
             (value.is_number_unsigned() &&
              value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max())) {
    fail(key, fmt::format("is {}; a whole number is expected", shown(value)));
  } else {
    whole = value.get<std::int64_t>();
  }
  if (whole < low || whole > high) {
    fail(key, fmt::format("is {}; it must be {}", whole,
                          high == std::numeric_limits<std::int64_t>::max()
                              ? fmt::format("at least {}", low)
                              : fmt::format("between {} and {}", low, high)));
  }
  return whole;
}

double JsonReader::number(const std::string& key, double low, double high) {
  const nlohmann::json& value = require(key);
  if (!value.is_number()) {
    fail(key, fmt::format("is {}; a number is expected", shown(value)));
  }
  const double number = value.get<double>();
  if (!(number >= low && number <= high)) {
    fail(key, fmt::format("is {}; it must be {}", number,
                          std::isinf(high) || high > 9.0e18
                              ? fmt::format("at least {}", low)
                              : fmt::format("between {} and {}", low, high)));
  }
  return number;
}

bool JsonReader::boolean(const std::string& key) {
  const nlohmann::json& value = require(key);
  if (!value.is_boolean()) {
    fail(key, fmt::format("is {}; true or false is expected", shown(value)));
  }
  return value.get<bool>();
}

Bytes JsonReader::bytes(const std::string& key) {
  return parse_bytes(text(key), where(key));
}
BytesPerSecond JsonReader::bandwidth(const std::string& key) {
  return parse_bandwidth(text(key), where(key));
}
Seconds JsonReader::duration(const std::string& key) {
  return parse_duration(text(key), where(key));
}
FlopPerSecond JsonReader::flop_rate(const std::string& key) {
  return parse_flop_rate(text(key), where(key));
}

JsonReader JsonReader::object(const std::string& key) {
  return JsonReader(require(key), where(key));
}

std::vector<JsonReader> JsonReader::objects(const std::string& key) {
  const nlohmann::json& value = require(key);
  if (!value.is_array()) {
    fail(key, fmt::format("is {}; an array of objects is expected", value.type_name()));
  }
  std::vector<JsonReader> readers;
  for (std::size_t i = 0; i < value.size(); ++i) {
    readers.emplace_back(value[i], fmt::format("{}/{}", where(key), i));
  }
  return readers;
}

void JsonReader::finish() const {
  for (const auto& item : json_->items()) {
    if (!seen_.contains(item.key())) {
      std::string known;
      for (const std::string& key : seen_) {
        known += (known.empty() ? "" : ", ") + key;
      }
      fail(item.key(), item.value().is_null()
                           ? "is null; a value, or no such key, is expected"
                           : fmt::format("is an unknown key; the keys here are {}", known));
    }
  }
}

}  // namespace trireme
