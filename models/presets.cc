// The presets that ship, and the one door for `--model`.
#include "models/presets.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <system_error>

#include "core/embedded_file.h"
#include "core/error.h"
#include "core/json_reader.h"
#include "models/model_file.h"
#include "models/model_names.h"

namespace trireme::models {

namespace embedded {
std::span<const core::EmbeddedFile> presets();
}  // namespace embedded

namespace {

namespace fs = std::filesystem;

const core::EmbeddedFile* find_preset(const std::string& name) {
  for (const core::EmbeddedFile& file : embedded::presets()) {
    if (file.name == name) {
      return &file;
    }
  }
  return nullptr;
}

// Python writes Infinity and NaN where JSON has no word; no dimension of a model is one, so they
// are read as texts, which whoever reads the key refuses.
std::string without_python_words(const std::string& text) {
  std::string out;
  bool quoted = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at);
    std::size_t size = 1;
    if (quoted && text[at] == '\\') {
      size = 2;
    } else if (text[at] == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
        if (rest.starts_with(word)) {
          out.append("\"").append(word).append("\"");
          at += word.size();
          size = 0;
          break;
        }
      }
    }
    out.append(rest.substr(0, size));
    at += size;
  }
  return out;
}

nlohmann::json read_config(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string plain = without_python_words(text);
  return plain == text ? read_json_file(path) : parse_json(plain, path);
}

Transformer read_any(const nlohmann::json& json, const std::string& where) {
  if (json.is_object() && json.contains("schema")) {
    return read_model_file(json, where);
  }
  return import_hugging_face(json, where);
}

Transformer load_file(const std::string& path) {
  std::error_code failed;
  return read_any(fs::is_regular_file(path, failed) ? read_config(path) : read_json_file(path),
                  path);
}

bool looks_like_path(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".json");
}

// A name, or that of a hub: owner/name. A file or folder of such a name says nothing of a model.
bool may_be_name(const std::string& text) {
  return std::count(text.begin(), text.end(), '/') <= 1 && !text.starts_with('/') &&
         !text.starts_with('.') && !text.ends_with(".json");
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const core::EmbeddedFile& file : embedded::presets()) {
    names.emplace_back(file.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Transformer load_model(const std::string& name_or_path) {
  if (name_or_path.starts_with('{')) {  // the text of a file
    return read_any(parse_json(without_python_words(name_or_path), "--model"), "--model");
  }
  if (const core::EmbeddedFile* preset = find_preset(name_or_path); preset != nullptr) {
    const std::string where = "preset " + name_or_path;
    return read_model_file(parse_json(preset->content, where), where);
  }
  std::error_code ignored;
  const fs::path path(name_or_path);
  if (fs::is_directory(path, ignored)) {
    const std::string file = (path / "config.json").lexically_normal().string();
    if (!fs::exists(file, ignored)) {
      throw Error(name_or_path, "is a folder without a config.json");
    }
    return load_file(file);
  }
  if (fs::exists(path, ignored)) {
    return load_file(name_or_path);
  }
  if (const std::string meant = preset_meant(name_or_path); !meant.empty()) {
    return load_model(meant);
  }
  const std::string shown = name_or_path.substr(0, 80);
  if (const std::string part = undescribed_part(name_or_path);
      may_be_name(name_or_path) && !part.empty()) {
    throw Error("--model", fmt::format("{} has {}, which no model here can describe", shown, part));
  }
  if (looks_like_path(name_or_path)) {
    throw Error(name_or_path,
                "does not exist; give a preset, a config.json, a folder with one, or a "
                "model file");
  }
  throw Error("--model",
              fmt::format("{} is neither a preset nor a file; the nearest presets are {}; "
                          "`trireme models` lists all",
                          shown.empty() ? "\"\"" : shown, nearest_presets(name_or_path)));
}

}  // namespace trireme::models
