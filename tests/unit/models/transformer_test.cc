// Parameter counts against exact published totals, and the dimensions that are refused.
#include "models/transformer.h"

#include <gtest/gtest.h>

#include <functional>

#include "core/error.h"
#include "example_models.h"

namespace trireme::models {
namespace {

TEST(Transformer, CountsLlamaExactly) {
  EXPECT_EQ(parameter_count(llama3_8b()), 8'030'261'248);
  EXPECT_EQ(parameter_count(llama3_70b()), 70'553'706'496);
  EXPECT_EQ(parameter_count(llama3_405b()), 405'853'388'800);
}

TEST(Transformer, CountsGpt2Exactly) {
  EXPECT_EQ(parameter_count(gpt(12, 768, 12, 50257, 1024)), 124'439'808);
  EXPECT_EQ(parameter_count(gpt(48, 1600, 25, 50257, 1024)), 1'557'611'200);
}

TEST(Transformer, CountsExpertsAndTheActiveOnes) {
  EXPECT_EQ(parameter_count(mixtral_8x7b()), 46'702'792'704);
  EXPECT_EQ(active_parameter_count(mixtral_8x7b()), 12'879'925'248);
}

TEST(Transformer, CountsDeepSeekV3WithItsPredictionModuleApart) {
  EXPECT_EQ(parameter_count(deepseek_v3()), 671'026'419'200);
  EXPECT_EQ(active_parameter_count(deepseek_v3()), 37'552'297'472);
  EXPECT_EQ(multi_token_parameter_count(deepseek_v3()), 11'610'068'224);
}

TEST(Transformer, PartsAddUpToTheWhole) {
  for (const Transformer& model :
       {llama3_8b(), mixtral_8x7b(), deepseek_v3(), gpt(2, 64, 4, 100, 32)}) {
    std::int64_t total = embedding_parameter_count(model) + final_norm_parameter_count(model);
    total += model.tied_embeddings ? 0 : head_parameter_count(model);
    for (std::int64_t layer = 0; layer < model.layers; ++layer) {
      total += layer_parameter_count(model, layer);
    }
    EXPECT_EQ(total, parameter_count(model));
  }
}

TEST(Transformer, GptLayerIs12SquareHiddenAnd13Hidden) {
  EXPECT_EQ(layer_parameter_count(gpt(1, 64, 4, 100, 32), 0), 12 * 64 * 64 + 13 * 64);
}

struct Fault {
  const char* named;
  std::function<void(Transformer&)> spoil;
};

TEST(Transformer, RefusesImpossibleDimensionsByName) {
  const Fault faults[] = {
      {"layers", [](Transformer& m) { m.layers = 0; }},
      {"hidden", [](Transformer& m) { m.hidden = -4096; }},
      {"heads", [](Transformer& m) { m.heads = 0; }},
      {"kv_heads", [](Transformer& m) { m.kv_heads = 5; }},
      {"kv_heads", [](Transformer& m) { m.kv_heads = 64; }},
      {"head_dim", [](Transformer& m) { m.head_dim = 0; }},
      {"ffn", [](Transformer& m) { m.ffn = 0; }},
      {"vocab", [](Transformer& m) { m.vocab = 4'000'000'000; }},
      {"max_sequence", [](Transformer& m) { m.max_sequence = 0; }},
      {"position_rows", [](Transformer& m) { m.position = Position::kLearned; }},
      {"moe_layers", [](Transformer& m) { m.moe_layers = {true}; }},
      {"parameters", [](Transformer& m) { m.layers = 90'000, m.hidden = 1'000'000; }},
      {"experts_per_token",
       [](Transformer& m) {
         m.moe = MixtureOfExperts{.experts = 8, .experts_per_token = 9, .expert_ffn = 64};
       }},
      {"router_groups",
       [](Transformer& m) {
         m.moe = MixtureOfExperts{.experts = 8, .experts_per_token = 2, .expert_ffn = 64};
         m.function.router_groups = 1000;
       }},
      {"router_groups_chosen",
       [](Transformer& m) {
         m.moe = MixtureOfExperts{.experts = 8, .experts_per_token = 2, .expert_ffn = 64};
         m.function.router_groups = 8;
       }},
      {"router_groups_chosen",
       [](Transformer& m) {
         m.moe = MixtureOfExperts{.experts = 8, .experts_per_token = 2, .expert_ffn = 64};
         m.function.router_groups = 8, m.function.router_groups_chosen = 1;
       }},
      {"kv_lora", [](Transformer& m) { m.latent = LatentAttention{.qk_nope = 8, .v_head = 8}; }},
  };
  EXPECT_NO_THROW(check_transformer(llama3_8b(), "file"));
  for (const Fault& fault : faults) {
    Transformer model = llama3_8b();
    fault.spoil(model);
    try {
      check_transformer(model, "file");
      ADD_FAILURE() << fault.named << " was accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(fault.named), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace trireme::models
