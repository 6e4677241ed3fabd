#include "planner/launch/model_family.h"

#include <algorithm>
#include <string_view>

namespace trireme::planner {
namespace {

struct Row {
  std::string_view part;  // of the name
  const char* dense_class;
  const char* expert_class;
  std::int64_t rotary_base;
  bool squared_relu = false, quick_geglu = false;
};

// The first part that the name holds counts: narrower ones stand before wider ones.
constexpr Row kRows[] = {
    {"kimi-k2", "DeepseekV3DecoderLayer", "DeepseekV3DecoderLayer", 50000},
    {"deepseek-v3", "DeepseekV3DecoderLayer", "DeepseekV3DecoderLayer", 10000},
    {"deepseek-v2", "DeepseekV2DecoderLayer", "DeepseekV2DecoderLayer", 10000},
    {"deepseek-moe", "DeepseekDecoderLayer", "DeepseekDecoderLayer", 10000},
    {"qwen3", "Qwen3DecoderLayer", "Qwen3MoeDecoderLayer", 1000000},
    {"qwen2", "Qwen2DecoderLayer", "Qwen2MoeDecoderLayer", 1000000},
    {"qwen1.5", "Qwen2DecoderLayer", "Qwen2MoeDecoderLayer", 1000000},
    {"mixtral", "MixtralDecoderLayer", "MixtralDecoderLayer", 1000000},
    {"mistral-7b-v0.3", "MistralDecoderLayer", "", 1000000},
    {"mistral-7b", "MistralDecoderLayer", "", 10000},
    {"mistral", "MistralDecoderLayer", "", 1000000},
    {"codellama", "LlamaDecoderLayer", "", 1000000},
    {"llama-3", "LlamaDecoderLayer", "", 500000},
    {"llama", "LlamaDecoderLayer", "", 10000},
    {"yi-34b", "LlamaDecoderLayer", "", 5000000},
    {"gemma-3", "Gemma3DecoderLayer", "", 1000000},
    {"gemma-2-", "Gemma2DecoderLayer", "", 10000},
    {"gemma", "GemmaDecoderLayer", "", 10000},
    {"phi-4-mini", "Phi3DecoderLayer", "", 10000},
    {"phi-4", "Phi3DecoderLayer", "", 250000},
    {"phi-3", "Phi3DecoderLayer", "", 10000},
    {"phi-2", "PhiDecoderLayer", "", 10000},
    {"gpt-oss", "", "GptOssDecoderLayer", 150000, false, true},
    {"glm-4.5", "", "Glm4MoeDecoderLayer", 1000000},
    {"olmo-2", "Olmo2DecoderLayer", "", 500000},
    {"nemotron-4", "NemotronDecoderLayer", "", 10000, true},
    {"gpt2", "GPT2Block", "", 0},
    {"bloom", "BloomBlock", "", 0},
    {"falcon", "FalconDecoderLayer", "", 10000},
    {"mpt", "MptBlock", "", 0},
    {"opt-", "OPTDecoderLayer", "", 0},
    {"gpt-neox", "GPTNeoXLayer", "", 10000},
    {"pythia", "GPTNeoXLayer", "", 10000},
};

}  // namespace

ModelFamily model_family(const models::Transformer& model) {
  std::string name = model.name;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const Row& row : kRows) {
    if (name.find(row.part) != std::string::npos) {
      return {.layer_class = model.moe ? row.expert_class : row.dense_class,
              .rotary_base = row.rotary_base,
              .squared_relu = row.squared_relu,
              .quick_geglu = row.quick_geglu};
    }
  }
  return {};
}

}  // namespace trireme::planner
