// Import of config.json: one hand-written file a family against its exact published total, what a
// file may leave out, and what is refused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "core/json_reader.h"
#include "models/presets.h"
#include "shared_data.h"

namespace trireme::models {
namespace {

Transformer import_text(const std::string& text) {
  return import_hugging_face(parse_json(text, "config.json"), "config.json");
}

std::string fault_of(const std::string& text) {
  try {
    import_text(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

struct Family {
  const char* config;
  std::int64_t parameters;
};

// Totals: the models' cards and public checkpoints.
const Family kFamilies[] = {
    {R"({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
         "vocab_size": 128256, "tie_word_embeddings": false})",
     8'030'261'248},
    {R"({"model_type": "mistral", "hidden_size": 5120, "num_hidden_layers": 40,
         "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
         "intermediate_size": 14336, "vocab_size": 131072})",
     12'247'782'400},
    {R"({"model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
         "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2})",
     46'702'792'704},
    {R"({"model_type": "qwen2", "hidden_size": 896, "num_hidden_layers": 24,
         "num_attention_heads": 14, "num_key_value_heads": 2, "intermediate_size": 4864,
         "vocab_size": 151936, "tie_word_embeddings": true})",
     494'032'768},
    {R"({"model_type": "qwen2_moe", "hidden_size": 2048, "num_hidden_layers": 24,
         "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 5632,
         "vocab_size": 151936, "num_experts": 60, "num_experts_per_tok": 4,
         "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632})",
     14'315'784'192},
    {R"({"model_type": "qwen3", "hidden_size": 2560, "num_hidden_layers": 36,
         "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
         "intermediate_size": 9728, "vocab_size": 151936, "tie_word_embeddings": true})",
     4'022'468'096},
    {R"({"model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48,
         "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
         "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128,
         "num_experts_per_tok": 8, "vocab_size": 151936, "mlp_only_layers": []})",
     30'532'122'624},
    {R"({"model_type": "gemma", "hidden_size": 3072, "num_hidden_layers": 28,
         "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256,
         "intermediate_size": 24576, "vocab_size": 256000})",
     8'537'680'896},
    {R"({"model_type": "gemma2", "hidden_size": 4608, "num_hidden_layers": 46,
         "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128,
         "intermediate_size": 36864, "vocab_size": 256000})",
     27'227'128'320},
    // A nested text part leaves out whatever equals its class's default: 8 heads, 4 groups, 262208.
    {R"({"model_type": "gemma3", "vision_config": {"hidden_size": 1152},
         "text_config": {"model_type": "gemma3_text", "hidden_size": 2560,
                         "intermediate_size": 10240, "num_hidden_layers": 34,
                         "sliding_window": 1024}})",
     3'880'263'168},
    {R"({"model_type": "phi3", "hidden_size": 5120, "num_hidden_layers": 40,
         "num_attention_heads": 40, "num_key_value_heads": 10, "intermediate_size": 17920,
         "vocab_size": 100352, "attention_bias": false})",
     14'659'507'200},
    {R"({"model_type": "phi", "hidden_size": 2560, "num_hidden_layers": 32,
         "num_attention_heads": 32, "intermediate_size": 10240, "vocab_size": 51200})",
     2'779'683'840},
    {R"({"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32,
         "num_attention_heads": 71, "multi_query": true, "parallel_attn": true, "bias": false,
         "alibi": false, "new_decoder_architecture": false, "vocab_size": 65024})",
     6'921'720'704},
    {R"({"model_type": "falcon", "hidden_size": 8192, "num_hidden_layers": 60,
         "num_attention_heads": 128, "num_kv_heads": 8, "new_decoder_architecture": true,
         "parallel_attn": true, "bias": false, "vocab_size": 65024})",
     41'303'293'952},
    {R"({"model_type": "gpt_neox", "hidden_size": 6144, "num_hidden_layers": 44,
         "num_attention_heads": 64, "intermediate_size": 24576, "vocab_size": 50432})",
     20'554'567'680},
    {R"({"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25, "n_positions": 1024,
         "vocab_size": 50257})",
     1'557'611'200},
    {R"({"model_type": "opt", "hidden_size": 768, "num_hidden_layers": 12, "ffn_dim": 3072,
         "num_attention_heads": 12, "max_position_embeddings": 2048, "vocab_size": 50272,
         "word_embed_proj_dim": 768, "do_layer_norm_before": true})",
     125'239'296},
    // The one with a narrower embedding and norms after the blocks.
    {R"({"model_type": "opt", "hidden_size": 1024, "num_hidden_layers": 24, "ffn_dim": 4096,
         "num_attention_heads": 16, "max_position_embeddings": 2048, "vocab_size": 50272,
         "word_embed_proj_dim": 512, "do_layer_norm_before": false})",
     331'196'416},
    {R"({"model_type": "bloom", "n_embed": 4096, "n_layer": 30, "num_attention_heads": 32,
         "vocab_size": 250880})",
     7'069'016'064},
    {R"({"model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 27,
         "num_attention_heads": 16, "q_lora_rank": null, "kv_lora_rank": 512,
         "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
         "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 64,
         "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1,
         "vocab_size": 102400})",
     15'706'484'224},
    {R"({"model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61,
         "num_attention_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512,
         "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
         "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256,
         "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3,
         "num_nextn_predict_layers": 1, "topk_method": "noaux_tc", "vocab_size": 129280})",
     671'026'419'200},
    {R"({"model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 24,
         "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
         "intermediate_size": 2880, "num_local_experts": 32, "num_experts_per_tok": 4,
         "vocab_size": 201088})",
     20'914'757'184},
    {R"({"model_type": "mpt", "d_model": 4096, "n_layers": 32, "n_heads": 32, "vocab_size": 50432,
         "max_seq_len": 2048, "no_bias": true, "attn_config": {"alibi": true}})",
     6'649'286'656},
    {R"({"model_type": "gpt_bigcode", "n_embd": 6144, "n_layer": 40, "n_head": 48,
         "n_inner": 24576, "n_positions": 8192, "vocab_size": 49152, "multi_query": true})",
     15'517'456'384},
    {R"({"model_type": "gpt_neo", "hidden_size": 2048, "num_layers": 24, "num_heads": 16,
         "intermediate_size": null, "max_position_embeddings": 2048, "vocab_size": 50257})",
     1'315'575'808},
    {R"({"model_type": "phimoe", "hidden_size": 4096, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 6400,
         "num_local_experts": 16, "num_experts_per_tok": 2, "attention_bias": true,
         "lm_head_bias": true, "vocab_size": 32064})",
     41'873'153'344},
    {R"({"model_type": "olmoe", "hidden_size": 2048, "num_hidden_layers": 16,
         "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 1024,
         "num_experts": 64, "num_experts_per_tok": 8, "vocab_size": 50304})",
     6'919'161'856},
    {R"({"model_type": "dbrx", "d_model": 6144, "n_layers": 40, "n_heads": 48,
         "vocab_size": 100352, "max_seq_len": 32768, "attn_config": {"kv_n_heads": 8},
         "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}})",
     131'596'523'520},
    {R"({"model_type": "cohere", "hidden_size": 8192, "num_hidden_layers": 40,
         "num_attention_heads": 64, "num_key_value_heads": 64, "intermediate_size": 22528,
         "vocab_size": 256000})",
     34'980'831'232},
    {R"({"model_type": "olmo", "hidden_size": 2048, "num_hidden_layers": 16,
         "num_attention_heads": 16, "intermediate_size": 8192, "vocab_size": 50304,
         "tie_word_embeddings": true})",
     1'176'764'416},
    {R"({"model_type": "qwen", "hidden_size": 4096, "num_hidden_layers": 32,
         "num_attention_heads": 32, "intermediate_size": 22016, "vocab_size": 151936})",
     7'721'324'544},
};

TEST(HuggingFace, CountsEveryFamilyExactly) {
  for (const Family& family : kFamilies) {
    EXPECT_EQ(parameter_count(import_text(family.config)), family.parameters) << family.config;
  }
}

TEST(HuggingFace, ReadsWindowsAsEachFamilyMeansThem) {
  const std::string rest = R"("hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
      "intermediate_size": 128, "vocab_size": 1000)";
  const auto windows = [&](const std::string& keys) {
    const Transformer model = import_text(fmt::format("{{{}, {}}}", keys, rest));
    std::vector<std::int64_t> all;
    for (std::int64_t layer = 0; layer < model.layers; ++layer) {
      all.push_back(attention_window(model, layer));
    }
    return all;
  };
  using Windows = std::vector<std::int64_t>;
  EXPECT_EQ(windows(R"("model_type": "llama")"), (Windows{0, 0, 0, 0}));
  EXPECT_EQ(windows(R"("model_type": "mistral", "sliding_window": null)"), (Windows{0, 0, 0, 0}));
  EXPECT_EQ(windows(R"("model_type": "mistral")"), (Windows{4096, 4096, 4096, 4096}));
  EXPECT_EQ(windows(R"("model_type": "qwen2", "sliding_window": 512, "use_sliding_window": false)"),
            (Windows{0, 0, 0, 0}));
  EXPECT_EQ(windows(R"("model_type": "qwen2", "sliding_window": 512, "use_sliding_window": true,
                       "max_window_layers": 3)"),
            (Windows{0, 0, 0, 512}));
  EXPECT_EQ(windows(R"("model_type": "gemma2", "sliding_window": 256)"), (Windows{256, 0, 256, 0}));
  EXPECT_EQ(windows(R"("model_type": "gemma3_text", "sliding_window": 9,
                       "sliding_window_pattern": 3)"),
            (Windows{9, 9, 0, 9}));
  EXPECT_EQ(windows(R"("model_type": "gpt_oss", "layer_types": ["full_attention",
                       "sliding_attention", "sliding_attention", "full_attention"])"),
            (Windows{0, 128, 128, 0}));
  // EXAONE 4 lost its windows in silence.
  EXPECT_EQ(windows(R"("model_type": "exaone4")"), (Windows{4096, 4096, 4096, 0}));
  EXPECT_EQ(windows(R"("model_type": "exaone4", "sliding_window": null)"), (Windows{0, 0, 0, 0}));
  EXPECT_EQ(windows(R"("model_type": "exaone4", "sliding_window": 64,
                       "sliding_window_pattern": "LG")"),
            (Windows{64, 0, 64, 0}));
  EXPECT_EQ(windows(R"("model_type": "exaone_moe", "sliding_window_pattern": 2)"),
            (Windows{4096, 0, 4096, 0}));
  EXPECT_EQ(windows(R"("model_type": "cwm")"), (Windows{0, 8192, 8192, 8192}));
}

TEST(HuggingFace, AWordOfWindowsHasLsAndGsOnly) {
  const std::string fault = fault_of(R"({"model_type": "exaone4", "hidden_size": 64,
      "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 128,
      "vocab_size": 1000, "sliding_window_pattern": "LLX"})");
  EXPECT_NE(fault.find("sliding_window_pattern: is \"LLX\""), std::string::npos) << fault;
}

TEST(HuggingFace, PlacesDenseLayersAmongSparseOnes) {
  const std::string rest = R"("hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
      "intermediate_size": 128, "vocab_size": 1000)";
  const auto sparse = [&](const std::string& keys) {
    const Transformer model = import_text(fmt::format("{{{}, {}}}", keys, rest));
    std::string all;
    for (std::int64_t layer = 0; layer < model.layers; ++layer) {
      all += is_moe_layer(model, layer) ? 'e' : 'd';
    }
    return all;
  };
  EXPECT_EQ(sparse(R"("model_type": "qwen3_moe")"), "eeee");
  EXPECT_EQ(sparse(R"("model_type": "qwen3_moe", "decoder_sparse_step": 2)"), "dede");
  EXPECT_EQ(sparse(R"("model_type": "qwen3_moe", "mlp_only_layers": [0, 2])"), "dede");
  EXPECT_EQ(sparse(R"("model_type": "deepseek_v3")"), "ddde");
  EXPECT_EQ(sparse(R"("model_type": "deepseek_v2", "moe_layer_freq": 2)"), "eded");
  EXPECT_EQ(sparse(R"("model_type": "deepseek_v2", "n_routed_experts": null)"), "dddd");
}

TEST(HuggingFace, UnknownTypeWithAllLlamaFieldsIsReadAsLlama) {
  const Transformer model = import_text(
      R"({"model_type": "novel", "hidden_size": 4096, "num_hidden_layers": 32,
          "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
          "vocab_size": 128256})");
  EXPECT_EQ(parameter_count(model), 8'030'261'248);
}

TEST(HuggingFace, UnknownTypeThatIsNoLlamaIsRefused) {
  const std::string llama = R"("hidden_size": 64, "num_hidden_layers": 4,
      "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 1000)";
  EXPECT_NE(fault_of(R"({"model_type": "rwkv", "hidden_size": 64})").find("rwkv"),
            std::string::npos);
  EXPECT_NE(
      fault_of(fmt::format("{{{}, {}}}", R"("model_type": "novel_moe", "num_experts": 8)", llama))
          .find("num_experts"),
      std::string::npos);
  EXPECT_NE(fault_of(fmt::format("{{{}, {}}}",
                                 R"("model_type": "novel", "is_encoder_decoder": true)", llama))
                .find("decoder"),
            std::string::npos);
  // An encoder, and an MLP of two matrices, have every field of a llama.
  EXPECT_NE(fault_of(fmt::format("{{{}, {}}}", R"("model_type": "bert", "type_vocab_size": 2,
                                 "hidden_act": "gelu")",
                                 llama))
                .find("type_vocab_size"),
            std::string::npos);
  EXPECT_NE(
      fault_of(fmt::format("{{{}, {}}}", R"("model_type": "novel", "hidden_act": "relu2")", llama))
          .find("hidden_act"),
      std::string::npos);
  EXPECT_NE(fault_of("{}").find("model_type"), std::string::npos);
}

TEST(HuggingFace, TypeFromTheClassNameInOldFiles) {
  const Transformer model = import_text(
      R"({"architectures": ["LLaMAForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32,
          "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 32000})");
  EXPECT_EQ(parameter_count(model), 6'738'415'616);
}

TEST(HuggingFace, RefusesWrongValuesWithTheirKey) {
  const auto llama_with = [](const std::string& key, const std::string& value) {
    nlohmann::json config = {{"model_type", "llama"},    {"hidden_size", 4096},
                             {"num_hidden_layers", 32},  {"num_attention_heads", 32},
                             {"num_key_value_heads", 8}, {"intermediate_size", 14336},
                             {"vocab_size", 128256}};
    if (value == "absent") {
      config.erase(key);
    } else {
      config[key] = nlohmann::json::parse(value);
    }
    return fault_of(config.dump());
  };
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads",
                          "intermediate_size", "vocab_size"}) {
    for (const char* value : {"absent", "null", "0", "-1", "\"4096\"", "[]", "{}", "true", "1.5",
                              "1e300", "18446744073709551615"}) {
      const std::string fault = llama_with(key, value);
      EXPECT_NE(fault.find(key), std::string::npos) << key << " = " << value << ": " << fault;
      EXPECT_EQ(fault.find('\n'), std::string::npos) << fault;
    }
  }
  EXPECT_NE(llama_with("num_attention_heads", "31").find("31"), std::string::npos);
  EXPECT_NE(llama_with("num_key_value_heads", "5").find("kv_heads 5"), std::string::npos);
  EXPECT_NE(llama_with("tie_word_embeddings", "\"yes\"").find("tie_word_embeddings"),
            std::string::npos);
  EXPECT_NE(llama_with("model_type", "5").find("model_type"), std::string::npos);
}

TEST(HuggingFace, RefusesAFileThatIsNoObject) {
  EXPECT_NE(fault_of("[]").find("object"), std::string::npos);
  EXPECT_NE(fault_of("3").find("object"), std::string::npos);
}

TEST(HuggingFace, EveryPublishedCountIsMetExactly) {
  const auto data = shared_data();
  if (!data) {
    GTEST_SKIP() << "shared data is not there";
  }
  const nlohmann::json counts = read_json_file(*data / "param_counts.json");
  for (const nlohmann::json& row : counts.at("models")) {
    const std::string name = row.at("model");
    const Transformer model = import_hugging_face(row.at("config"), name);
    EXPECT_EQ(parameter_count(model), row.at("expected_total_params").get<std::int64_t>()) << name;
    // The table counts BLOOM's norm after the embedding apart.
    const std::int64_t norm = model.embedding_norm ? 2 * model.hidden : 0;
    EXPECT_EQ(embedding_parameter_count(model) - norm,
              row.at("embedding_params").get<std::int64_t>())
        << name;
    EXPECT_EQ(model.tied_embeddings ? 0 : head_parameter_count(model),
              row.at("lm_head_params").get<std::int64_t>())
        << name;
    if (row.contains("active_params_incl_embedding_and_head")) {
      EXPECT_EQ(active_parameter_count(model),
                row.at("active_params_incl_embedding_and_head").get<std::int64_t>())
          << name;
    }
  }
}

TEST(HuggingFace, EveryRealFileIsReadAndAgreesWithItsCount) {
  const auto data = shared_data();
  if (!data) {
    GTEST_SKIP() << "shared data is not there";
  }
  std::map<std::string, std::int64_t> expected;
  const nlohmann::json counts = read_json_file(*data / "param_counts.json");
  for (const nlohmann::json& row : counts.at("models")) {
    expected[row.at("model")] = row.at("expected_total_params").get<std::int64_t>();
  }
  int agreed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*data / "hf_configs")) {
    const Transformer model = load_model(entry.path().string());
    EXPECT_GT(parameter_count(model), 100'000'000) << entry.path();
    std::string id = entry.path().stem().string();
    id.replace(id.find("--"), 2, "/");
    if (const auto found = expected.find(id); found != expected.end()) {
      EXPECT_EQ(parameter_count(model), found->second) << id;
      ++agreed;
    }
  }
  EXPECT_GE(agreed, 8);
}

// P20 and two variants, by their published counts.
TEST(HuggingFace, FamiliesOfThisYearAreReadAsFarAsADescriptionGoes) {
  const Transformer minimax = import_text(R"({"model_type": "minimax_m2", "hidden_size": 3072,
      "num_hidden_layers": 62, "num_attention_heads": 48, "num_key_value_heads": 8,
      "head_dim": 128, "intermediate_size": 1536, "num_local_experts": 256,
      "num_experts_per_tok": 8, "vocab_size": 200064, "use_qk_norm": true,
      "qk_norm_type": "per_layer", "max_position_embeddings": 196608})");
  EXPECT_NEAR(static_cast<double>(parameter_count(minimax)), 228.7e9, 0.05e9);
  EXPECT_NEAR(static_cast<double>(active_parameter_count(minimax)), 11.0e9, 0.5e9);
  // dots.llm1: 142.8 B, of which 14 B are active.
  const Transformer dots = import_text(R"({"model_type": "dots1", "hidden_size": 4096,
      "num_hidden_layers": 62, "num_attention_heads": 32, "num_key_value_heads": 32,
      "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 128,
      "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1,
      "vocab_size": 152064})");
  EXPECT_NEAR(static_cast<double>(parameter_count(dots)), 142.8e9, 0.5e9);
  // ERNIE-4.5-21B-A3B
  const Transformer ernie = import_text(R"({"model_type": "ernie4_5_moe", "hidden_size": 2560,
      "num_hidden_layers": 28, "num_attention_heads": 20, "num_key_value_heads": 4,
      "head_dim": 128, "intermediate_size": 12288, "moe_intermediate_size": 1536,
      "moe_num_experts": 64, "moe_k": 6, "moe_num_shared_experts": 2, "vocab_size": 103424,
      "tie_word_embeddings": true, "moe_layer_start_index": 1, "moe_layer_end_index": -1})");
  EXPECT_EQ(parameter_count(ernie), 21'825'437'888);  // -1, which was refused, is the last layer
}

// Billions of parameters as the models' cards say them: all, and active where there are experts.
TEST(HuggingFace, FamiliesThatWereLlamasOrUnknownBeforeHaveTheirCardsCounts) {
  struct Card {
    const char* config;
    double all, active, within;
  };
  const Card cards[] = {
      {R"({"model_type": "hunyuan_v1_moe", "hidden_size": 4096, "num_hidden_layers": 32,
           "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 3072,
           "num_experts": 64, "moe_topk": [8, 8], "moe_intermediate_size": [3072, 3072],
           "num_shared_expert": [1, 1], "vocab_size": 128167, "tie_word_embeddings": true})",
       80.4, 13, 0.5},
      {R"({"model_type": "exaone_moe", "hidden_size": 6144, "num_hidden_layers": 48,
           "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128,
           "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_experts": 128,
           "num_experts_per_tok": 8, "num_shared_experts": 1, "vocab_size": 153600})",
       236, 23, 1},
      {R"({"model_type": "flex_olmo", "hidden_size": 4096, "num_hidden_layers": 32,
           "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 100352})",
       33.3, 24.6, 0.1},
      {R"({"model_type": "solar_open", "hidden_size": 4096, "num_hidden_layers": 48,
           "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 10240,
           "vocab_size": 196608})",
       102.6, 12, 0.2},
      {R"({"model_type": "cwm", "hidden_size": 6144, "num_hidden_layers": 64,
           "num_attention_heads": 48, "num_key_value_heads": 8, "intermediate_size": 21504,
           "vocab_size": 128256})",
       32.6, 32.6, 0.05},
      {R"({"model_type": "youtu", "hidden_size": 2048, "num_hidden_layers": 32,
           "num_attention_heads": 16, "intermediate_size": 6144, "q_lora_rank": 1536,
           "vocab_size": 128256})",
       1.96, 1.96, 0.01},
      {R"({"model_type": "jais2", "hidden_size": 3328, "num_hidden_layers": 32,
           "num_attention_heads": 26, "intermediate_size": 26624, "vocab_size": 150272})",
       8.09, 8.09, 0.01},
      {R"({"model_type": "vaultgemma", "hidden_size": 1152, "num_hidden_layers": 26,
           "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 256,
           "intermediate_size": 6912, "vocab_size": 256000, "tie_word_embeddings": true})",
       1.04, 1.04, 0.005}};
  for (const Card& card : cards) {
    const Transformer model = import_text(card.config);
    EXPECT_NEAR(static_cast<double>(parameter_count(model)) / 1e9, card.all, card.within)
        << card.config;
    EXPECT_NEAR(static_cast<double>(active_parameter_count(model)) / 1e9, card.active, 1)
        << card.config;
  }
}

// granite-4.0-micro: attention alone and no experts, which a zero says.
TEST(HuggingFace, AZeroIsNoThingThatIsThere) {
  const auto granite = [](const std::string& experts, const std::string& kinds) {
    return R"({"model_type": "granitemoehybrid", "hidden_size": 2560, "num_hidden_layers": 4,
        "num_attention_heads": 40, "num_key_value_heads": 8, "intermediate_size": 512,
        "shared_intermediate_size": 8192, "vocab_size": 100352, "tie_word_embeddings": true,
        "num_local_experts": )" +
           experts + R"(, "layer_types": [)" + kinds + "]";
  };
  const std::string attends = R"("attention", "attention", "attention", "attention")";
  const Transformer dense =
      import_text(granite("0", attends) + R"(, "position_embedding_type": "rope"})");
  EXPECT_FALSE(dense.moe);
  EXPECT_EQ(dense.ffn, 8192);
  EXPECT_EQ(dense.position, Position::kRotary);
  // The card's 3.4e9 with all of its 40 layers.
  const std::int64_t embedding = std::int64_t{100352} * 2560;
  EXPECT_NEAR(static_cast<double>((parameter_count(dense) - embedding) * 10 + embedding), 3.4e9,
              0.02e9);
  const Transformer experts = import_text(granite("62", attends) + "}");
  ASSERT_TRUE(experts.moe);
  EXPECT_EQ(experts.moe->shared_ffn, 8192);
  EXPECT_EQ(experts.position, Position::kNone);
  const std::string mixed = R"("mamba", "attention", "mamba", "mamba")";
  EXPECT_NE(fault_of(granite("0", mixed) + "}").find("state-space layers"), std::string::npos);
  // A model of an unknown family whose experts are none is a llama.
  const std::string llama = R"({"model_type": "unheard_of", "hidden_size": 2048,
      "num_hidden_layers": 2, "num_attention_heads": 16, "intermediate_size": 8192,
      "vocab_size": 32000, "attention_output_gate": false, "num_experts": )";
  EXPECT_FALSE(import_text(llama + "0}").moe);
  EXPECT_NE(fault_of(llama + "8}").find("experts of unknown build"), std::string::npos);
}

TEST(HuggingFace, CountsOfExpertsThatDifferBetweenLayersAreRefused) {
  const std::string fault = fault_of(R"({"model_type": "hunyuan_v1_moe", "hidden_size": 64,
      "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
      "vocab_size": 1000, "num_experts": [8, 4], "moe_topk": 2})");
  EXPECT_NE(fault.find("num_experts: is not the same in all layers"), std::string::npos) << fault;
}

// P20: the rest of its list.
TEST(HuggingFace, WhatNoDescriptionCanHoldIsNamedAsThat) {
  const std::string llama = R"("hidden_size": 2048, "num_hidden_layers": 24,
      "num_attention_heads": 16, "intermediate_size": 8192, "vocab_size": 32000)";
  const std::pair<const char*, const char*> cases[] = {
      {R"("model_type": "qwen3_next", "linear_num_key_heads": 16, "num_experts": 512)",
       "linear attention"},
      {R"("model_type": "qwen3_5", "linear_num_key_heads": 16)", "linear attention"},
      {R"("model_type": "kimi_linear", "linear_attn_config": {}, "kv_lora_rank": 512)",
       "linear attention"},
      {R"("model_type": "deepseek_v32", "index_topk": 2048, "kv_lora_rank": 512)",
       "sparse attention"},
      {R"("model_type": "glm_moe_dsa", "index_topk": 2048, "n_routed_experts": 256)",
       "sparse attention"},
      {R"("model_type": "nemotron_h", "hybrid_override_pattern": "M-M*")", "state-space layers"},
      {R"("model_type": "gemma4_text", "hidden_size_per_layer_input": 256)",
       "an embedding for every layer"},
      {R"("model_type": "mimo_v2_flash", "swa_num_attention_heads": 64, "n_routed_experts": 256)",
       "other heads in its sliding layers"},
      {R"("model_type": "step3_text", "share_q_dim": 2048, "moe_num_experts": 48)",
       "queries factored"},
      {R"("model_type": "afmoe", "global_attn_every_n_layers": 4, "mup_enabled": true)",
       "gates on what its attention gives"}};
  for (const auto& [keys, named] : cases) {
    const std::string fault = fault_of("{" + std::string(keys) + ", " + llama + "}");
    EXPECT_NE(fault.find(named), std::string::npos) << keys << "\n" << fault;
    EXPECT_EQ(std::count(fault.begin(), fault.end(), '\n'), 0);
  }
}

// P21, with NaN and -Infinity, at the end of an object and of a list.
TEST(HuggingFace, PythonsWordsForNumbersAreRead) {
  const std::string llama = R"({"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16,
      "num_attention_heads": 32, "intermediate_size": 8192, "vocab_size": 32000, )";
  for (const char* words :
       {R"("time_step_limit": [0.0, Infinity], "note": "Infinity and NaN \" stay here"})",
        R"("floor": -Infinity, "none": NaN, "after": 1})", R"("nested": {"limits": [-Infinity,
            Infinity], "last": NaN}})"}) {
    const std::string path = testing::TempDir() + "python_words.json";
    std::ofstream(path) << llama << words;
    EXPECT_EQ(load_model(path).layers, 16) << words;
    EXPECT_EQ(load_model(llama + words).layers, 16) << words;  // the text itself
  }
}

// Factors of 0 and Infinity, odd rotary widths and layers that there are not were taken; faults
// were named by our words for the file's keys.
TEST(HuggingFace, WhatNoModelOfTheFamilyCouldBeIsRefusedByTheFilesOwnKey) {
  const std::string shape =
      R"("hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32,
      "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 32000, )";
  const std::string experts =
      R"("n_routed_experts": 64, "num_experts_per_tok": 6, "kv_lora_rank": 512,
      "moe_intermediate_size": 1408, "qk_nope_head_dim": 128, "v_head_dim": 128, )";
  struct Wrong {
    std::string type, words, says;
  };
  const Wrong wrong[] = {
      {"granite", R"("embedding_multiplier": 0)", "#/embedding_multiplier: is 0"},
      {"granite", R"("logits_scaling": NaN)", "#/logits_scaling: "},
      {"granite", R"("residual_multiplier": Infinity)", "#/residual_multiplier: "},
      {"granite", R"("attention_multiplier": -1)", "#/attention_multiplier: is -1"},
      {"cohere", R"("logit_scale": 0)", "#/logit_scale: is 0"},
      {"gemma2", R"("attn_logit_softcapping": 0)", "#/attn_logit_softcapping: is 0"},
      {"llama", R"("partial_rotary_factor": 0.33)", "#/partial_rotary_factor: gives 21"},
      {"qwen3", R"("head_dim": 127)", "#/head_dim: gives 127"},
      {"llama", R"("partial_rotary_factor": 1.5)", "#/partial_rotary_factor: is 1.5"},
      {"llama", R"("rope_theta": 0)", "#/rope_theta: is 0"},
      {"llama", R"("rope_scaling": {"rope_type": "yarn", "factor": -4})",
       "#/rope_scaling.factor: is -4"},
      {"llama", R"("num_key_value_heads": 7)", "#/num_attention_heads: 32 is not divisible"},
      {"qwen3_moe", R"("num_experts": 8, "mlp_only_layers": [16])",
       "#/mlp_only_layers: names layer 16"},
      {"deepseek_v3", experts + R"("n_group": 0)", "#/n_group: is 0"},
      {"deepseek_v3", experts + R"("n_group": 7)", "#/n_group: is 7"},
      {"deepseek_v3", experts + R"("qk_rope_head_dim": 63)", "#/qk_rope_head_dim: gives 63"},
      {"deepseek_v3", experts + R"("first_k_dense_replace": 99)", "#/first_k_dense_replace: is 99"},
      {"deepseek_v3", experts + R"("scoring_func": "relu")", "#/scoring_func: is"},
      {"deepseek_v3", experts + R"("routed_scaling_factor": 0)", "#/routed_scaling_factor: is 0"},
  };
  for (const Wrong& one : wrong) {
    std::string own = shape;
    if (one.words.find("num_key_value_heads") != std::string::npos) {
      own.erase(own.find("\"num_key_value_heads\""),
                std::string("\"num_key_value_heads\": 8, ").size());
    }
    const std::string text = "{\"model_type\": \"" + one.type + "\", " + own + one.words + "}";
    std::string fault = "accepted";
    try {
      load_model(text);
    } catch (const Error& error) {
      fault = error.what();
    }
    EXPECT_NE(fault.find(one.says), std::string::npos) << text << "\n" << fault;
  }
}

}  // namespace
}  // namespace trireme::models
