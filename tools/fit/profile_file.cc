#include "tools/fit/profile_file.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files.h"
#include "core/json_reader.h"

namespace trireme::tools {

namespace {

using Json = nlohmann::ordered_json;

double rounded(double value) {
  return std::stod(fmt::format("{:.4g}", value));
}

bool is_flat(const Json& json) {
  for (const Json& item : json) {
    if (item.is_structured()) {
      return false;
    }
  }
  return true;
}

// Objects one key a line unless they hold plain values only; tables four rows a line.
void print(const Json& json, int depth, std::string& out) {
  const std::string indent(static_cast<std::size_t>(depth), ' ');
  if (!json.is_structured() || is_flat(json)) {
    std::string line = json.is_structured() ? "" : json.dump();
    if (json.is_object()) {
      for (const auto& [key, value] : json.items()) {
        line += fmt::format("{}\"{}\": {}", line.empty() ? "{" : ", ", key, value.dump());
      }
      line = line.empty() ? "{}" : line + "}";
    } else if (json.is_array()) {
      for (const Json& value : json) {
        line += (line.empty() ? "[" : ", ") + value.dump();
      }
      line = line.empty() ? "[]" : line + "]";
    }
    out += line;
    return;
  }
  out += json.is_object() ? "{\n" : "[\n";
  std::size_t count = 0;
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      out += fmt::format("{} \"{}\": ", indent, key);
      print(value, depth + 1, out);
      out += ++count < json.size() ? ",\n" : "\n";
    }
  } else {
    for (const Json& value : json) {
      out += count % 4 == 0 ? indent + " " : " ";
      print(value, depth + 1, out);
      ++count;
      out += count == json.size() ? "\n" : count % 4 == 0 ? ",\n" : ",";
    }
  }
  out += indent + (json.is_object() ? "}" : "]");
}

}  // namespace

void write_fitted(const std::string& from, const std::string& to,
                  const topologies::Profile& profile) {
  Json json = Json::parse(read_file(from, "the shipped profile"));
  for (const auto& [name, fit] : profile.gpus) {
    for (const auto& [key, value] : fit.constants) {
      if (json["gpus"][name]["constants"].contains(
              key)) {  // else it is that of the card it is like
        json["gpus"][name]["constants"][key] = rounded(value);
      }
    }
  }
  for (const auto& [name, constants] : profile.frameworks) {
    for (const auto& [key, value] : constants) {
      json["frameworks"][name][key] = rounded(value);
    }
  }
  json["intervals"] = Json::object();
  for (const auto& [name, constants] : profile.intervals) {
    for (const auto& [key, value] : constants) {
      json["intervals"][name][key] = rounded(value);
    }
  }
  for (const auto& [name, constants] : profile.networks) {
    for (const auto& [key, value] : constants) {
      json["networks"][name][key] = rounded(value);
    }
  }
  std::string text;
  print(json, 0, text);
  write_file_atomically(to, text + "\n");
}

}  // namespace trireme::tools
