#include "core/json_reader.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/quantity.h"

namespace trireme {
namespace {

std::size_t line_of_byte(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  return 1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
}

// nlohmann's message holds its own id and position before the last colon-separated sentence; keep
// the reason.
std::string parse_reason(const std::string& message) {
  const auto cut = message.find("syntax error");
  return cut == std::string::npos ? message : message.substr(cut);
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

// How deep lists and objects stand in each other; brackets in strings do not count.
int nesting(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      i += c == '\\' ? 1 : 0;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

// Where a file that `path` names is written: links are followed, so that they stay links.
std::string target_of(const std::string& path) {
  std::error_code failed;
  if (!std::filesystem::is_symlink(path, failed)) {
    return path;
  }
  const std::filesystem::path target = std::filesystem::canonical(path, failed);
  return failed ? path : target.string();
}

bool write_whole(const std::string& path, std::string_view content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.flush();
  return static_cast<bool>(file);
}

[[noreturn]] void fail_to_write(const std::string& path) {
  throw Error(path, "cannot be written; give a path in a writable folder with enough space");
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& name) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    throw Error(name, "is empty; a JSON object is expected");
  }
  constexpr int kDeepest = 200;  // the readers below recurse
  if (nesting(text) > kDeepest) {
    throw Error(name, fmt::format("nests lists and objects more than {} deep", kDeepest));
  }
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    throw Error(fmt::format("{}:{}", name, line_of_byte(text, error.byte)),
                "is not valid JSON: " + parse_reason(error.what()));
  } catch (const nlohmann::json::out_of_range&) {
    throw Error(name, "holds a number beyond the range of a double");
  }
}

nlohmann::json read_json_file(const std::string& path) {
  std::error_code failed;
  if (std::filesystem::is_directory(path, failed) ||
      std::filesystem::is_character_file(path, failed)) {
    throw Error(path, "is a folder or a device; give the path of a JSON file");
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    if (file && file.peek() == std::ifstream::traits_type::eof()) {
      throw Error(path, "is empty; a JSON object is expected");
    }
    throw Error(path, "cannot be read; give the path of a readable JSON file");
  }
  return parse_json(text.str(), path);
}

void write_file_atomically(const std::string& path, std::string_view content) {
  namespace fs = std::filesystem;
  const std::string target = target_of(path);
  std::error_code failed;
  const fs::file_status before = fs::status(target, failed);
  if (fs::exists(before) && !fs::is_regular_file(before)) {  // a pipe, /dev/stdout, a folder
    if (!write_whole(target, content)) {
      fail_to_write(path);
    }
    return;
  }
  const std::string temporary = fmt::format("{}.{}.tmp", target, ::getpid());
  if (!write_whole(temporary, content)) {
    std::remove(temporary.c_str());
    fail_to_write(path);
  }
  if (fs::exists(before)) {
    fs::permissions(temporary, before.permissions(), failed);
  }
  if (std::rename(temporary.c_str(), target.c_str()) != 0) {
    std::remove(temporary.c_str());
    throw Error(path, "cannot be replaced; give a path in a writable folder");
  }
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
  const double value = number(key, static_cast<double>(low), static_cast<double>(high));
  if (value != std::floor(value) || std::abs(value) > 9.0e18) {
    fail(key, fmt::format("is {}; a whole number is expected", value));
  }
  return static_cast<std::int64_t>(value);
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
      fail(item.key(), fmt::format("is an unknown key; the keys here are {}", known));
    }
  }
}

}  // namespace trireme
