#include "core/json_text.h"

#include <nlohmann/json.hpp>

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

bool is_flat(const Json& json) {
  for (const Json& value : json) {
    if (value.is_structured()) {
      return false;
    }
  }
  return true;
}

void write(const Json& json, std::size_t depth, std::string& text) {
  constexpr std::size_t kLine = 160;
  if (!json.is_structured() || json.empty()) {
    text += json.dump();
    return;
  }
  if (is_flat(json)) {
    const std::string line = json.dump();
    if (json.is_array() || line.size() <= kLine) {
      text += line;
      return;
    }
  }
  const std::string indent(depth + 1, ' ');
  text += json.is_object() ? "{\n" : "[\n";
  bool first = true;
  for (const auto& item : json.items()) {
    text += first ? "" : ",\n";
    first = false;
    text += indent;
    if (json.is_object()) {
      text += Json(item.key()).dump() + ": ";
    }
    write(item.value(), depth + 1, text);
  }
  text += "\n" + std::string(depth, ' ') + (json.is_object() ? "}" : "]");
}

}  // namespace

std::string readable_json(const nlohmann::ordered_json& json) {
  std::string text;
  write(json, 0, text);
  return text + "\n";
}

}  // namespace trireme
