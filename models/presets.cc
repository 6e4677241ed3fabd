// The presets that ship, and the one door for `--model`.
#include "models/presets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/edits.h"
#include "core/embedded_file.h"
#include "core/error.h"
#include "core/json_reader.h"
#include "models/model_file.h"

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

// The parts of a name between its marks and between its letters and digits: llama, 70, b.
std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts;
  int before = 0;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const int kind = std::isalpha(byte) != 0 ? 1 : std::isdigit(byte) != 0 ? 2 : 0;
    if (kind != 0 && kind != before) {
      parts.emplace_back();
    }
    before = kind;
    if (kind != 0) {
      parts.back() += static_cast<char>(std::tolower(byte));
    }
  }
  return parts;
}

// How many of the name's parts, in order, the preset has.
std::size_t shared_parts(const std::vector<std::string>& name, const std::string& preset) {
  std::size_t shared = 0;
  for (const std::string& part : parts_of(preset)) {
    shared += shared < name.size() && part == name[shared] ? 1U : 0U;
  }
  return shared;
}

// Those of which the name only leaves something out (llama-70b of llama-3.1-70b, mixtral of
// mixtral-8x7b), newest first; where there are none, the nearest by edits.
std::string nearest_names(const std::string& name) {
  constexpr std::size_t kShown = 3;
  constexpr std::size_t kShownOfFamily = 8;
  const std::vector<std::string> parts = parts_of(name);
  std::vector<std::string> all = preset_names();
  std::reverse(all.begin(), all.end());
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const std::string& preset : all) {
    const bool whole = !parts.empty() && shared_parts(parts, preset) == parts.size();
    ranked.emplace_back(whole ? 0 : edits_between(name, preset), preset);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto family = static_cast<std::size_t>(
      std::count_if(ranked.begin(), ranked.end(), [](const auto& one) { return one.first == 0; }));
  const std::size_t shown = family == 0 ? kShown : std::min(family, kShownOfFamily);
  std::string nearest;
  for (std::size_t i = 0; i < std::min(shown, ranked.size()); ++i) {
    nearest += (i == 0 ? "" : ", ") + ranked[i].second;
  }
  return nearest;
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

// "meta-llama/Llama-3.1-70B-Instruct" is the preset llama-3.1-70b: a hub name without its owner and
// without what only says how the weights were trained on or stored. Nothing when there is none.
const core::EmbeddedFile* find_hub_name(const std::string& text) {
  const auto cut = text.find('/');
  if (cut == std::string::npos || text.find('/', cut + 1) != std::string::npos) {
    return nullptr;
  }
  std::string name = text.substr(cut + 1);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name.starts_with("meta-")) {
    name.erase(0, 5);
  }
  for (bool shorter = true; shorter;) {
    if (const core::EmbeddedFile* preset = find_preset(name); preset != nullptr) {
      return preset;
    }
    shorter = false;
    for (const std::string_view end :
         {"-instruct", "-base", "-chat", "-hf", "-it", "-4k", "-128k", "-2507", "-v0.1", "-v0.3"}) {
      if (name.ends_with(end)) {
        name.resize(name.size() - end.size());
        shorter = true;
        break;
      }
    }
  }
  return nullptr;
}

bool looks_like_path(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".json");
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
  if (const core::EmbeddedFile* preset = find_hub_name(name_or_path); preset != nullptr) {
    const std::string where = "preset " + std::string(preset->name);
    return read_model_file(parse_json(preset->content, where), where);
  }
  if (looks_like_path(name_or_path)) {
    throw Error(name_or_path,
                "does not exist; give a preset, a config.json, a folder with one, or a "
                "model file");
  }
  const std::string shown = name_or_path.size() <= 80 ? name_or_path : name_or_path.substr(0, 80);
  throw Error("--model",
              fmt::format("{} is neither a preset nor a file; the nearest presets are {}; "
                          "`trireme models` lists all",
                          shown.empty() ? "\"\"" : shown, nearest_names(name_or_path)));
}

}  // namespace trireme::models
