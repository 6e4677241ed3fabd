// Whatever a model, topology or profile file holds, reading it gives a valid value or one clear
// line of trireme::Error: no other exception, no crash, no hang.
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json_reader.h"
#include "models/model_file.h"
#include "models/presets.h"
#include "models/work.h"
#include "mutate.h"
#include "topologies/cluster.h"
#include "topologies/profile.h"
#include "topologies/topology_file.h"

namespace trireme {
namespace {

using fuzz::mutate;

// Runs `read` over spoiled versions of the texts. Returns how many were accepted.
std::uint64_t run(const std::vector<std::string>& texts, std::uint64_t cases,
                  const std::function<void(const std::string&)>& read) {
  std::uint64_t accepted = 0;
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    const std::string text = mutate(texts[seed % texts.size()], seed);
    try {
      read(text);
      ++accepted;
    } catch (const Error& error) {
      const std::string line = error.what();
      EXPECT_EQ(line.find('\n'), std::string::npos) << "seed " << seed << ": " << line;
      EXPECT_LT(line.size(), 4000U) << "seed " << seed;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "seed " << seed << " threw " << error.what() << " for " << text;
    }
  }
  return accepted;
}

// An accepted model is one that every count and work list can be made of.
void use(const models::Transformer& model) {
  EXPECT_GT(models::parameter_count(model), 0);
  EXPECT_GE(models::parameter_count(model), models::active_parameter_count(model));
  const models::Shard shard{.sequence = 128, .tensor_parallel = 2};
  for (const models::Matmul& matmul : models::layer_work(model, 0, shard).forward.matmuls) {
    EXPECT_GT(models::flop_of(matmul).value, 0.0) << models::traits_of(matmul.part).name;
  }
  const std::string again = models::write_model_file(model).dump();
  EXPECT_EQ(models::read_model_file(parse_json(again, "again"), "again"), model);
}

TEST(Fuzz, ModelFiles) {
  std::vector<std::string> texts;
  for (const char* name : {"gpt2", "llama-3.1-8b", "mixtral-8x7b", "gemma-2-2b", "deepseek-v3",
                           "gpt-oss-20b", "falcon-7b", "bloom-560m"}) {
    texts.push_back(models::write_model_file(models::load_model(name)).dump());
  }
  const std::uint64_t cases = fuzz::case_count(4000);
  const std::uint64_t accepted = run(texts, cases, [](const std::string& text) {
    use(models::read_model_file(parse_json(text, "m.json"), "m.json"));
  });
  EXPECT_GT(accepted, 0U);
  EXPECT_LT(accepted, cases);
}

TEST(Fuzz, HuggingFaceFiles) {
  const std::vector<std::string> texts = {
      R"({"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 4, "head_dim": 32,
          "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 512,
          "vocab_size": 1000, "attention_bias": true, "tie_word_embeddings": false})",
      R"({"model_type": "gpt2", "n_embd": 128, "n_layer": 2, "n_head": 4, "n_positions": 64,
          "vocab_size": 500})",
      R"({"model_type": "qwen3_moe", "hidden_size": 128, "num_hidden_layers": 4, "head_dim": 32,
          "num_attention_heads": 4, "intermediate_size": 256, "vocab_size": 999, "num_experts": 8,
          "num_experts_per_tok": 2, "moe_intermediate_size": 64, "decoder_sparse_step": 2,
          "mlp_only_layers": [1]})",
      R"({"model_type": "deepseek_v3", "hidden_size": 128, "num_hidden_layers": 4,
          "num_attention_heads": 4, "intermediate_size": 256, "vocab_size": 999,
          "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64,
          "n_shared_experts": 1, "first_k_dense_replace": 1, "q_lora_rank": 32,
          "kv_lora_rank": 16, "num_nextn_predict_layers": 1})",
      R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 64,
          "num_hidden_layers": 3, "intermediate_size": 128, "layer_types": ["full_attention",
          "sliding_attention", "full_attention"], "sliding_window": 16}})",
      R"({"model_type": "gpt_oss", "hidden_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64,
          "vocab_size": 100, "num_local_experts": 4, "sliding_window": 8})",
      R"({"model_type": "opt", "hidden_size": 64, "num_hidden_layers": 2, "ffn_dim": 256,
          "num_attention_heads": 4, "word_embed_proj_dim": 32, "vocab_size": 100,
          "do_layer_norm_before": false, "max_position_embeddings": 128})",
      R"({"model_type": "mpt", "d_model": 64, "n_layers": 2, "n_heads": 4, "vocab_size": 100,
          "attn_config": {"alibi": true, "kv_n_heads": 2}})",
      R"({"model_type": "falcon", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 100,
          "num_attention_heads": 4, "new_decoder_architecture": true, "num_kv_heads": 2})",
  };
  const std::uint64_t cases = fuzz::case_count(6000);
  const std::uint64_t accepted = run(texts, cases, [](const std::string& text) {
    use(models::import_hugging_face(parse_json(text, "config.json"), "config.json"));
  });
  EXPECT_GT(accepted, 0U);
  EXPECT_LT(accepted, cases);
}

TEST(Fuzz, TopologyFiles) {
  std::vector<std::string> texts;
  for (const char* name : {"dgx-h100x16", "dgx-a100-80gbx2", "dgx1-v100x2", "gb200-nvl72x2",
                           "rtx4090x1", "aws-p4dx4"}) {
    texts.push_back(topologies::cluster_to_json(topologies::load_cluster(name)).dump());
  }
  const std::uint64_t cases = fuzz::case_count(4000);
  const std::uint64_t accepted = run(texts, cases, [](const std::string& text) {
    const nlohmann::json json = parse_json(text, "t.json");
    JsonReader reader(json, "t.json");
    const topologies::Cluster cluster =
        topologies::read_cluster(reader, topologies::network_presets());
    EXPECT_GT(cluster.gpus, 0);
    EXPECT_GT(cluster.gpu.memory.value, 0);
  });
  EXPECT_GT(accepted, 0U);
  EXPECT_LT(accepted, cases);
}

TEST(Fuzz, ProfileFiles) {
  const std::vector<std::string> texts = {topologies::profile_text(topologies::shipped_profile())};
  const std::uint64_t cases = fuzz::case_count(500);
  const std::uint64_t accepted = run(texts, cases, [](const std::string& text) {
    const topologies::Profile profile = topologies::parse_profile(text, "p.json");
    topologies::parse_profile(topologies::profile_text(profile), "again");
  });
  EXPECT_LT(accepted, cases);
}

}  // namespace
}  // namespace trireme
