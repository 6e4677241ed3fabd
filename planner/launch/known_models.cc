#include "planner/launch/known_models.h"

#include <algorithm>
#include <string_view>

#include "models/presets.h"

namespace trireme::planner {
namespace {

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

}  // namespace

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
