#include "models/model_names.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <utility>
#include <vector>

#include "core/edits.h"
#include "models/presets.h"

namespace trireme::models {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// 38b is not in 138b, nor gpt2 in gpt20.
bool contains_whole(const std::string& text, const std::string& name) {
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    const bool ends = end == text.size() || !is_digit(text[end]) || !is_digit(name.back());
    if (ends && (at == 0 || !is_digit(name.front()) || !is_digit(text[at - 1]))) {
      return true;
    }
  }
  return false;
}

// Models whose decoder has a preset's dimensions under another name: what their name has in place
// of the preset's (letters and digits alone). From their config.json: Qwen2's are Qwen2.5's, the
// decoders of Qwen2-VL, Qwen2.5-VL and Qwen3-VL those of the plain models, distillations those of
// what they were distilled into.
struct OtherName {
  std::string_view part, preset;  // or what its models have that cannot be described
  std::string_view unless = "";   // another model has this in its name too
};
constexpr OtherName kOtherNames[] = {
    {"deepseekr1distillqwen", "qwen25"},
    {"deepseekr1distillllama8b", "llama318b"},
    {"deepseekr1distillllama70b", "llama3370b"},
    {"deepseekr10528qwen38b", "qwen38b"},
    {"deepseekr1", "deepseekv3"},
    {"deepseekv31", "deepseekv3"},
    {"deepseekv30324", "deepseekv3"},
    {"qwen25vl", "qwen25"},
    {"qwen25omni", "qwen25"},
    {"qwen25math", "qwen25"},
    {"qwen25coder", "qwen25"},
    {"qwen2vl2b", "qwen2515b"},
    {"qwen2vl", "qwen25"},
    {"qwen2math", "qwen25"},
    {"qwen257ba14b", "qwen257ba14b"},
    {"qwen20", "qwen250"},
    {"qwen21", "qwen251"},
    {"qwen27b", "qwen257b"},
    {"qwen272b", "qwen2572b"},
    {"qwen3600m", "qwen306b"},
    {"qwen3coder30b", "qwen330b"},
    {"qwen3embedding", "qwen3"},
    {"qwen3reranker", "qwen3"},
    {"qwen3guardgen", "qwen3"},
    {"qwen3vlembedding", "qwen3"},
    {"qwen3vl2b", "qwen317b"},
    {"qwen3vl", "qwen3"},
    {"qwq32b", "qwen2532b"},
    {"olmo21124", "olmo2"},
    {"llama31tulu38b", "llama318b"},
    {"llama31tulu370b", "llama3170b"},
    {"tulu27b", "llama27b"},
    {"tulu213b", "llama213b"},
    {"tulu270b", "llama270b"},
    {"vicuna7bv15", "llama27b"},
    {"vicuna13bv15", "llama213b"},
    {"vicuna7b", "llama7b"},
    {"vicuna13b", "llama13b"},
    {"zephyr7b", "mistral7b"},
    {"mistralsmall3124b", "mistralsmall24b"},
    {"mistralsmall3224b", "mistralsmall24b"},
    {"magistralsmall", "mistralsmall24b"},
    {"devstralsmall", "mistralsmall24b"},
    {"llama4scout", "llama4scout"},
    {"17b16e", "llama4scout"},
    {"17b128e", "llama4maverick"},
    {"glm45v", "glm45air"},
    {"glm46v", "glm45air", "flash"},
    {"glm46", "glm45", "flash"},
    {"codellama7b", "llama27b"},
    {"codellama13b", "llama213b"},
    {"codellama70b", "llama270b"},
};

// Families that no model description here can hold, and what they have (models/hugging_face.cc says
// the same of their config.json).
constexpr OtherName kUndescribed[] = {
    {"qwen3next", "layers of linear attention (gated delta rule)"},
    {"qwen3codernext", "layers of linear attention (gated delta rule)"},
    {"qwen35", "layers of linear attention (gated delta rule)"},
    {"qwen36", "layers of linear attention (gated delta rule)", "qwen3600m"},
    {"kimilinear", "layers of linear attention"},
    {"minimaxtext01", "layers of linear attention (lightning)"},
    {"minimaxm1", "layers of linear attention (lightning)"},
    {"ringlinear", "layers of linear attention"},
    {"gemma4", "heads of another width in its global layers"},
    {"gemma3n", "an embedding for every layer"},
    {"deepseekv32", "sparse attention (an indexer chooses the tokens)"},
    {"deepseekv4", "sparse attention over compressed tokens"},
    {"glm5", "sparse attention (an indexer chooses the tokens)"},
    {"nemotronh", "state-space layers (Mamba)"},
    {"nemotronnano9b", "state-space layers (Mamba)"},  // Llama-3.1-Nemotron-Nano has 4B and 8B
    {"nemotronnano12b", "state-space layers (Mamba)"},
    {"nemotron3", "state-space layers (Mamba)"},
    {"granite40h", "state-space layers (Mamba)"},
    {"falconh1", "state-space layers (Mamba)"},
    {"mamba", "state-space layers (Mamba)"},
    {"jamba", "state-space layers (Mamba)"},
    {"zamba", "state-space layers (Mamba)"},
    {"bamba", "state-space layers (Mamba)"},
    {"lfm2", "convolution layers among its attention layers"},
    {"recurrentgemma", "recurrent layers"},
    {"rwkv", "recurrent layers (RWKV)"},
};

// The preset with the longest name in the text; empty: none.
std::string preset_among(const std::string& plain) {
  std::string best;
  std::size_t length = 0;
  for (const std::string& preset : preset_names()) {
    const std::string name = letters_and_digits(preset);
    if (name.size() > length && contains_whole(plain, name)) {
      best = preset;
      length = name.size();
    }
  }
  return best;
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

// What a name says besides its model: how the weights were trained on, stored or dated.
bool says_no_model(const std::string& part) {
  constexpr std::string_view kWords[] = {"instruct", "base", "chat", "hf",   "it",   "pt",
                                         "thinking", "4k",   "8k",   "128k", "v0.1", "v0.3"};
  const auto digit = [](char c) { return is_digit(c); };
  const bool dated = part.size() == 4 && std::ranges::all_of(part, digit);
  return dated || std::ranges::find(kWords, part) != std::ranges::end(kWords);
}

// The preset of that very name, marks and capitals aside: llama3.1_8b is llama-3.1-8b.
std::string same_name(const std::string& name) {
  const std::vector<std::string> parts = parts_of(name);
  for (const std::string& preset : preset_names()) {
    if (parts_of(preset) == parts) {
      return preset;
    }
  }
  return {};
}

// The preset that has the shape of a model of that name.
std::string same_shape(const std::string& name) {
  const std::string plain = letters_and_digits(name);
  for (const OtherName& other : kOtherNames) {
    if (!plain.starts_with(other.part)) {
      continue;
    }
    const std::string renamed = std::string(other.preset) + plain.substr(other.part.size());
    for (const std::string& preset : preset_names()) {
      if (letters_and_digits(preset) == renamed) {
        return preset;
      }
    }
  }
  return {};
}

}  // namespace

std::string letters_and_digits(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    if (c >= 'A' && c <= 'Z') {
      plain += static_cast<char>(c + 32);
    } else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      plain += c;
    }
  }
  return plain;
}

std::string preset_in(std::string_view text) {
  const std::string plain = letters_and_digits(text);
  for (const OtherName& other : kOtherNames) {
    const std::size_t at = plain.find(other.part);
    if (at == std::string::npos ||
        (!other.unless.empty() && plain.find(other.unless) != std::string::npos)) {
      continue;
    }
    std::string renamed = plain;
    renamed.replace(at, other.part.size(), other.preset);
    if (std::string preset = preset_among(renamed); !preset.empty()) {
      return preset;
    }
  }
  return preset_among(plain);
}

std::string preset_meant(const std::string& text) {
  const std::size_t cut = text.find('/');
  if (text.starts_with('.') || text.starts_with('~')) {  // a path
    return {};
  }
  if (cut != std::string::npos && text.find('/', cut + 1) != std::string::npos) {
    return {};
  }
  std::string name = cut == std::string::npos ? text : text.substr(cut + 1);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name.starts_with("meta-")) {
    name.erase(0, 5);
  }
  while (true) {
    for (const auto& find : {same_name, same_shape}) {
      if (std::string preset = find(name); !preset.empty()) {
        return preset;
      }
    }
    const std::size_t end = name.rfind('-');
    if (end == std::string::npos || !says_no_model(name.substr(end + 1))) {
      return {};
    }
    name.resize(end);
  }
}

std::string undescribed_part(std::string_view text) {
  const std::string plain = letters_and_digits(text);
  for (const OtherName& family : kUndescribed) {
    if (plain.find(family.part) != std::string::npos &&
        (family.unless.empty() || plain.find(family.unless) == std::string::npos)) {
      return std::string(family.preset);
    }
  }
  return {};
}

std::string nearest_presets(const std::string& name) {
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

}  // namespace trireme::models
