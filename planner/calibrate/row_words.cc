#include "planner/calibrate/row_words.h"

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/embedded_file.h"
#include "core/json_reader.h"

namespace trireme::planner {

namespace embedded {
std::span<const core::EmbeddedFile> row_words();
}  // namespace embedded

namespace {

using nlohmann::json;

// What stands at a key, "a.b" for one of a dict; null where nothing does.
json value_at(const json& row, const std::string& key) {
  const std::size_t dot = key.find('.');
  const auto found = row.is_object() ? row.find(key.substr(0, dot)) : row.end();
  if (!row.is_object() || found == row.end()) {
    return nullptr;
  }
  return dot == std::string::npos ? *found : value_at(*found, key.substr(dot + 1));
}

// Its text; words of an array in a line.
std::string text_at(const json& row, const std::string& key) {
  const json found = value_at(row, key);
  return found.is_string() ? found.get<std::string>() : found.is_array() ? found.dump() : "";
}

bool holds(const std::string& text, const json& entry, const char* key) {
  const auto words = entry.find(key);
  if (words == entry.end()) {
    return false;
  }
  for (const json& word : words->is_array() ? *words : json::array({*words})) {
    if (text.find(word.get<std::string>()) != std::string::npos) {
      return true;
    }
  }
  return false;
}

bool applies(const json& entry, const json& row) {
  if ((entry.contains("within") && !row.contains(entry.at("within").get<std::string>())) ||
      (entry.contains("absent") && row.contains(entry.at("absent").get<std::string>()))) {
    return false;
  }
  if (const auto where = entry.find("where"); where != entry.end()) {
    for (const auto& [key, value] : where->items()) {
      if (value_at(row, key) != value) {
        return false;
      }
    }
  }
  const std::string date = text_at(row, "date");
  if ((entry.contains("from") && date < entry.at("from").get<std::string>()) ||
      (entry.contains("until") && (date.empty() || date >= entry.at("until").get<std::string>()))) {
    return false;
  }
  if (!entry.contains("in")) {
    return true;
  }
  const std::string text = text_at(row, entry.at("in"));
  return (holds(text, entry, "word") || holds(text, entry, "any")) && !holds(text, entry, "unless");
}

}  // namespace

nlohmann::json with_words_read(nlohmann::json row) {
  static const std::vector<json> tables = [] {
    std::vector<json> read;
    for (const core::EmbeddedFile& file : embedded::row_words()) {
      read.push_back(parse_json(file.content, std::string(file.name)));
    }
    return read;
  }();
  for (const json& table : tables) {
    for (const json& entry : table.at("words")) {
      if (applies(entry, row)) {
        row.merge_patch(entry.at("row"));
      }
    }
  }
  return row;
}

}  // namespace trireme::planner
