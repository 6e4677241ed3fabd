#include "planner/launch/known_models.h"

#include <algorithm>
#include <string_view>

#include "models/presets.h"

namespace trireme::planner {
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

struct Row {
  std::string_view part;  // of the name
  const char* dense_class;
  const char* expert_class;
};

// The first part that the name holds counts: narrower ones stand before wider ones.
constexpr Row kRows[] = {
    {"kimi-k2", "DeepseekV3DecoderLayer", "DeepseekV3DecoderLayer"},
    {"deepseek-v3", "DeepseekV3DecoderLayer", "DeepseekV3DecoderLayer"},
    {"deepseek-v2", "DeepseekV2DecoderLayer", "DeepseekV2DecoderLayer"},
    {"deepseek-moe", "DeepseekDecoderLayer", "DeepseekDecoderLayer"},
    {"qwen3", "Qwen3DecoderLayer", "Qwen3MoeDecoderLayer"},
    {"qwen2", "Qwen2DecoderLayer", "Qwen2MoeDecoderLayer"},
    {"qwen1.5", "Qwen2DecoderLayer", "Qwen2MoeDecoderLayer"},
    {"mixtral", "MixtralDecoderLayer", "MixtralDecoderLayer"},
    {"mistral", "MistralDecoderLayer", ""},
    {"llama", "LlamaDecoderLayer", ""},
    {"yi-34b", "LlamaDecoderLayer", ""},
    {"gemma-3", "Gemma3DecoderLayer", ""},
    {"gemma-2-", "Gemma2DecoderLayer", ""},
    {"gemma", "GemmaDecoderLayer", ""},
    {"phi-4", "Phi3DecoderLayer", ""},
    {"phi-3", "Phi3DecoderLayer", ""},
    {"phi-2", "PhiDecoderLayer", ""},
    {"gpt-oss", "", "GptOssDecoderLayer"},
    {"glm-4.5", "", "Glm4MoeDecoderLayer"},
    {"olmo-2", "Olmo2DecoderLayer", ""},
    {"nemotron-4", "NemotronDecoderLayer", ""},
    {"gpt2", "GPT2Block", ""},
    {"bloom", "BloomBlock", ""},
    {"falcon", "FalconDecoderLayer", ""},
    {"mpt", "MptBlock", ""},
    {"opt-", "OPTDecoderLayer", ""},
    {"gpt-neox", "GPTNeoXLayer", ""},
    {"pythia", "GPTNeoXLayer", ""},
};

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
    {"nemotronnano", "state-space layers (Mamba)", "8b"},
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
  for (const std::string& preset : models::preset_names()) {
    const std::string name = letters_and_digits(preset);
    if (name.size() > length && contains_whole(plain, name)) {
      best = preset;
      length = name.size();
    }
  }
  return best;
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

std::vector<std::string> presets_of_shape(const models::Transformer& model, bool any_vocabulary) {
  std::vector<std::string> same;
  for (const std::string& preset : models::preset_names()) {
    models::Transformer other = models::load_model(preset);
    if (other.layers != model.layers || other.hidden != model.hidden) {
      continue;
    }
    if (other.position_rows != 0 && other.position_rows != other.max_sequence) {
      continue;  // OPT's table has two rows more than its sequence
    }
    other.name = model.name;
    other.max_sequence = model.max_sequence;
    other.position_rows = model.position_rows;
    other.multi_token_layers = model.multi_token_layers;
    other.function = model.function;
    if (other.moe && model.moe) {
      other.moe->router_bias = model.moe->router_bias;
      other.moe->capacity_factor = model.moe->capacity_factor;
    }
    if (any_vocabulary) {
      other.vocab = model.vocab;
    }
    if (other == model) {
      same.push_back(preset);
    }
  }
  return same;
}

ModelFamily model_family(const models::Transformer& model) {
  std::string name = model.name;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const Row& row : kRows) {
    if (name.find(row.part) != std::string::npos) {
      return {.layer_class = model.moe ? row.expert_class : row.dense_class};
    }
  }
  return {};
}

}  // namespace trireme::planner
