// What a config.json says of the function of a model, by family, and what stays default.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "models/function_table.h"
#include "models/model_file.h"
#include "models/presets.h"
#include "tests/unit/models/shared_data.h"

namespace trireme::models {
namespace {

Function imported(const char* text) {
  return import_hugging_face(nlohmann::json::parse(text), "config.json").function;
}

std::string fault_of_function(const char* text) {
  try {
    imported(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

constexpr const char* kSmallLlama =
    R"({"model_type": "llama", "hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8,
        "intermediate_size": 1024, "vocab_size": 32000, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
        "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})";

TEST(Function, LlamaHasItsBaseAndScaling) {
  const Function f = imported(kSmallLlama);
  EXPECT_EQ(f.norm_epsilon, 1e-5);
  EXPECT_EQ(f.rotary_base, 500000);
  EXPECT_EQ(f.rotary_scaling, "llama3");
  EXPECT_EQ(f.rotary_factor, 32);
  EXPECT_EQ(f.rotary_trained, 8192);
}

// transformers 5 keeps base and scaling in one object.
TEST(Function, RopeParametersAreReadAsScalingIs) {
  const Function f = imported(
      R"({"model_type": "qwen3", "hidden_size": 512, "num_hidden_layers": 8,
          "num_attention_heads": 8, "intermediate_size": 1024, "vocab_size": 32000,
          "rope_parameters": {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0,
                              "original_max_position_embeddings": 32768}})");
  EXPECT_EQ(f.rotary_base, 1e6);
  EXPECT_EQ(f.rotary_scaling, "yarn");
  EXPECT_EQ(f.rotary_factor, 4);
}

TEST(Function, FamiliesHaveWhatTheirClassesHave) {
  const auto small = [](const char* type, const char* more) {
    return imported((std::string(R"({"model_type": ")") + type +
                     R"(", "hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8,
                        "intermediate_size": 1024, "vocab_size": 32000)" +
                     more + "}")
                        .c_str());
  };
  const Function gemma = small("gemma2", R"(, "head_dim": 64, "query_pre_attn_scalar": 144)");
  EXPECT_TRUE(gemma.norm_plus_one);
  EXPECT_EQ(gemma.activation, "gelu_tanh");
  EXPECT_DOUBLE_EQ(gemma.embedding_multiplier, std::sqrt(512.0));
  EXPECT_DOUBLE_EQ(gemma.attention_scale, 1.0 / 12);
  EXPECT_EQ(gemma.attention_cap, 50);
  EXPECT_EQ(gemma.logit_cap, 30);
  EXPECT_TRUE(small("olmo2", "").norm_after);
  EXPECT_EQ(small("nemotron", "").activation, "relu2");
  EXPECT_EQ(small("cohere", "").logit_multiplier, 0.0625);
  EXPECT_EQ(small("granite", R"(, "logits_scaling": 8.0)").logit_multiplier, 0.125);
  EXPECT_EQ(small("smollm3", "").no_rotary_layers, (std::vector<std::int64_t>{3, 7}));
  EXPECT_EQ(small("gpt_neox", R"(, "rotary_pct": 0.25)").rotary_share, 0.25);
  const Function oss = small("gpt_oss", R"(, "head_dim": 64, "hidden_act": "silu")");
  EXPECT_EQ(oss.activation, "quick_gelu");
  EXPECT_EQ(oss.activation_limit, 7);
  EXPECT_EQ(oss.up_offset, 1);
}

// OLMo 3's sliding layers keep the rotation of short sequences.
TEST(Function, ScalesOnlyFullLayersOfOlmo3) {
  const char* const scaled =
      R"({"model_type": "olmo3", "hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8,
          "intermediate_size": 1024, "vocab_size": 32000, "rope_theta": 500000,
          "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "attention_factor": 1.2079441541679836,
                           "original_max_position_embeddings": 8192}})";
  EXPECT_EQ(imported(scaled).rotary_local_base, 500000);
  EXPECT_EQ(imported(R"({"model_type": "olmo3", "hidden_size": 512, "num_hidden_layers": 8,
                         "num_attention_heads": 8, "intermediate_size": 1024, "vocab_size": 32000})")
                .rotary_local_base,
            0);
  for (const char* name : {"olmo-3-7b", "olmo-3-32b"}) {
    EXPECT_EQ(load_model(name).function.rotary_local_base, 500000) << name;
  }
}

TEST(Function, RoutersOfDeepSeekDiffer) {
  const Function v3 = load_model("deepseek-v3").function;
  EXPECT_EQ(v3.router_score, "sigmoid");
  EXPECT_EQ(v3.router_groups, 8);
  EXPECT_EQ(v3.router_groups_chosen, 4);
  EXPECT_EQ(v3.router_scale, 2.5);
  EXPECT_TRUE(v3.router_bias_selects);
  const Function v2 = load_model("deepseek-v2").function;
  EXPECT_EQ(v2.router_group_score, "max");
  EXPECT_FALSE(v2.router_normalises);
}

// Presets carry what the published files say.
TEST(Function, PresetsAreTheirConfigs) {
  const auto data = shared_data();
  if (!data) {
    GTEST_SKIP() << "the shared data are not there";
  }
  constexpr std::pair<const char*, const char*> kPairs[] = {
      {"Qwen--Qwen1.5-MoE-A2.7B", "qwen1.5-moe-a2.7b"},
      {"Qwen--Qwen2.5-7B-Instruct", "qwen2.5-7b"},
      {"Qwen--Qwen3-235B-A22B", "qwen3-235b-a22b"},
      {"Qwen--Qwen3-8B", "qwen3-8b"},
      {"deepseek-ai--DeepSeek-V2-Lite", "deepseek-v2-lite"},
      {"google--gemma-2-9b", "gemma-2-9b"},
      {"google--gemma-3-1b-it", "gemma-3-1b"},
      {"meta-llama--Meta-Llama-3.1-405B", "llama-3.1-405b"},
      {"meta-llama--Meta-Llama-3.1-70B", "llama-3.1-70b"},
      {"meta-llama--Meta-Llama-3.1-8B", "llama-3.1-8b"},
      {"microsoft--Phi-3.5-mini-instruct", "phi-3.5-mini"},
      {"mistralai--Mistral-7B-v0.1", "mistral-7b"},
      {"mistralai--Mixtral-8x22B-v0.1", "mixtral-8x22b"},
      {"mistralai--Mixtral-8x7B-v0.1", "mixtral-8x7b"},
      {"moonshotai--Kimi-K2-Instruct", "kimi-k2"},
      {"openai-community--gpt2", "gpt2"}};
  for (const auto& [file, preset] : kPairs) {
    const Function published =
        load_model((*data / "hf_configs" / (std::string(file) + ".json")).string()).function;
    const Function ours = load_model(preset).function;
    for (const FunctionField& field : function_fields()) {
      EXPECT_TRUE(same_value(field, ours, published))
          << preset << ": " << field.key << " " << value_text(field, ours) << ", not "
          << value_text(field, published);
    }
  }
}

TEST(Function, WhatNoDescriptionHasIsRefusedByName) {
  std::string text = kSmallLlama;
  text.replace(text.find("llama3"), 6, "ntk_v9");
  EXPECT_NE(fault_of_function(text.c_str()).find("rope_scaling"), std::string::npos);
  EXPECT_NE(fault_of_function(text.c_str()).find("ntk_v9"), std::string::npos);
  text = kSmallLlama;
  text.insert(1, R"("hidden_act": "snake", )");
  EXPECT_NE(fault_of_function(text.c_str()).find("hidden_act"), std::string::npos);
}

TEST(Function, ModelFileKeepsEveryFieldAndIsStrict) {
  Transformer model = load_model("llama-3.1-8b");
  model.function.rotary_scaling = "longrope";
  model.function.rotary_short = {1, 1.5};
  model.function.rotary_long = {2, 4};
  model.function.no_rotary_layers = {1, 3};
  model.function.norm_after = true;
  const nlohmann::json file = nlohmann::json::parse(write_model_file(model).dump());
  Transformer expected = model;
  settle_function(expected);
  EXPECT_EQ(read_model_file(file, "m.json"), expected);
  nlohmann::json wrong = file;
  wrong["function"]["rotary_bass"] = 1;
  EXPECT_THROW(read_model_file(wrong, "m.json"), Error);
  wrong = file;
  wrong["function"]["activation"] = "snake";
  EXPECT_THROW(read_model_file(wrong, "m.json"), Error);
}

}  // namespace
}  // namespace trireme::models
