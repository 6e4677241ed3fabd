// The function of a model, field by field: config.json, export, check, and the model again. Every
// field comes back equal, or the writer refuses the model by the field's name.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "models/function_table.h"
#include "models/model_file.h"
#include "models/presets.h"
#include "planner/launch/export.h"
#include "planner/launch/function_spellings.h"
#include "planner/launch/read_launch.h"
#include "topologies/cluster.h"
#include "topologies/profile.h"

namespace trireme::planner {
namespace {

using nlohmann::json;

// Small models of public families, with the fields that their config.json files have.
// NOLINTNEXTLINE(readability-function-size): a table, one family a row
const std::map<std::string, json>& families() {
  static const json kSmall = {{"hidden_size", 512},
                              {"num_hidden_layers", 8},
                              {"num_attention_heads", 8},
                              {"num_key_value_heads", 4},
                              {"intermediate_size", 1024},
                              {"vocab_size", 32000},
                              {"max_position_embeddings", 8192}};
  static const auto with = [](const char* type, const json& more) {
    json config = kSmall;
    config["model_type"] = type;
    config.update(more);
    return config;
  };
  static const json kLatent = {{"q_lora_rank", 256},     {"kv_lora_rank", 128},
                               {"qk_nope_head_dim", 64}, {"qk_rope_head_dim", 32},
                               {"v_head_dim", 64},       {"first_k_dense_replace", 1},
                               {"n_routed_experts", 32}, {"num_experts_per_tok", 8},
                               {"n_shared_experts", 1},  {"moe_intermediate_size", 256}};
  static const auto latent = [](const char* type, json more) {
    more.update(kLatent);
    return with(type, more);
  };
  static const json kExperts = {
      {"num_experts", 16}, {"num_experts_per_tok", 4}, {"moe_intermediate_size", 256}};
  static const json kYarn = {{"type", "yarn"},
                             {"factor", 40},
                             {"beta_fast", 32},
                             {"beta_slow", 1},
                             {"mscale", 1.0},
                             {"mscale_all_dim", 1.0},
                             {"original_max_position_embeddings", 4096}};
  static const json kGpt = {
      {"n_embd", 512}, {"n_layer", 4}, {"n_head", 8}, {"vocab_size", 50257}, {"n_positions", 1024}};
  static const std::map<std::string, json> kAll = {
      {"llama", with("llama", {{"rms_norm_eps", 1e-5}, {"rope_theta", 500000.0}})},
      {"mistral", with("mistral", {{"sliding_window", 4096}})},
      {"qwen2", with("qwen2", {{"rope_theta", 1e6}})},
      {"qwen3", with("qwen3", {{"head_dim", 128}, {"rope_theta", 1e6}})},
      {"gemma", with("gemma", {{"head_dim", 64}})},
      {"gemma2", with("gemma2", {{"head_dim", 64}, {"query_pre_attn_scalar", 144}})},
      {"gemma3", with("gemma3_text", {{"head_dim", 64}})},
      {"phi3", with("phi3", {{"partial_rotary_factor", 0.75}})},
      {"smollm3", with("smollm3", {{"no_rope_layer_interval", 4}})},
      {"glm4", with("glm4", {{"head_dim", 64}})},
      {"olmo2", with("olmo2", json::object())},
      {"exaone4", with("exaone4", json::object())},
      {"exaone_moe", with("exaone_moe", kExperts)},
      {"hunyuan_v1_moe", with("hunyuan_v1_moe", {{"num_experts", 16}, {"moe_topk", 4}})},
      {"flex_olmo", with("flex_olmo", kExperts)},
      {"granitemoeshared", with("granitemoeshared", {{"shared_intermediate_size", 512}})},
      {"solar_open", with("solar_open", {{"n_routed_experts", 16}, {"num_experts_per_tok", 4}})},
      {"cwm", with("cwm", json::object())},
      {"jais2", with("jais2", json::object())},
      {"vaultgemma", with("vaultgemma", {{"head_dim", 64}})},
      {"youtu", latent("youtu", json::object())},
      {"ernie4_5", with("ernie4_5", json::object())},
      {"nemotron", with("nemotron", {{"norm_eps", 1e-5}})},
      {"cohere", with("cohere", {{"logit_scale", 0.25}})},
      {"cohere2", with("cohere2", {{"sliding_window", 4096}})},
      {"stablelm", with("stablelm", json::object())},
      {"starcoder2", with("starcoder2", json::object())},
      {"granite", with("granite", {{"logits_scaling", 8.0}, {"residual_multiplier", 0.22}})},
      {"minicpm", with("minicpm", {{"scale_emb", 12}, {"scale_depth", 1.4}})},
      {"mixtral", with("mixtral", {{"num_local_experts", 8}})},
      {"phimoe", with("phimoe", {{"num_local_experts", 8}})},
      {"qwen2_moe", with("qwen2_moe", kExperts)},
      {"qwen3_moe", with("qwen3_moe", kExperts)},
      {"olmoe", with("olmoe", kExperts)},
      {"glm4_moe", with("glm4_moe", {{"n_routed_experts", 16}, {"num_experts_per_tok", 4}})},
      {"dots1", with("dots1", {{"n_routed_experts", 16}, {"num_experts_per_tok", 4}})},
      {"minimax_m2", with("minimax_m2", {{"num_local_experts", 16}, {"rotary_dim", 64}})},
      {"bailing_moe", with("bailing_moe", kExperts)},
      {"deepseek_v2", latent("deepseek_v2", {{"topk_method", "greedy"}, {"rope_scaling", kYarn}})},
      {"deepseek_v3", latent("deepseek_v3", {{"rope_scaling", kYarn}, {"n_group", 8}})},
      {"kimi_k2", latent("kimi_k2", {{"n_group", 1}, {"num_nextn_predict_layers", 1}})},
      {"gpt_oss", with("gpt_oss", {{"head_dim", 64}, {"num_local_experts", 8}})},
      {"llama4", with("llama4_text", {{"num_local_experts", 8}})},
      {"gpt2",
       [] {
         json config = kGpt;
         config["model_type"] = "gpt2";
         return config;
       }()},
      {"gpt_neox", with("gpt_neox", json::object())},
      {"phi", with("phi", json::object())},
      {"falcon", with("falcon", json::object())},
      {"opt", with("opt", {{"ffn_dim", 1024}})},
      {"bloom", with("bloom", json::object())},
  };
  return kAll;
}

// Each changes one field that changes the function.
std::vector<json> mutations() {
  return {json::object(),
          {{"rms_norm_eps", 3e-6}},
          {{"rope_theta", 123456.0}},
          {{"rope_scaling",
            {{"rope_type", "llama3"},
             {"factor", 8.0},
             {"low_freq_factor", 1.0},
             {"high_freq_factor", 4.0},
             {"original_max_position_embeddings", 8192}}}},
          {{"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}},
          {{"rope_scaling",
            {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 4096}}}},
          {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 77000.0}}}},
          {{"partial_rotary_factor", 0.25}},
          {{"hidden_act", "gelu"}},
          {{"norm_topk_prob", false}},
          {{"routed_scaling_factor", 1.5}},
          {{"n_group", 4}, {"topk_group", 2}},
          {{"router_aux_loss_coef", 0.02}},
          {{"final_logit_softcapping", 20.0}},
          {{"attention_multiplier", 0.01}},
          {{"initializer_range", 0.006}}};
}

struct Case {
  std::string name;
  models::Transformer model;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& preset : models::preset_names()) {
    all.push_back({preset, models::load_model(preset)});
  }
  for (const auto& [name, config] : families()) {
    for (const json& mutation : mutations()) {
      json changed = config;
      changed.update(mutation);
      const std::string label = name + " " + mutation.dump();
      models::Transformer model = models::import_hugging_face(changed, label);
      model.name = name;
      all.push_back({label, std::move(model)});
    }
  }
  return all;
}

LaunchPlan launch_of(const models::Transformer& model, const char* framework) {
  LaunchPlan launch;
  Job& job = launch.job;
  job.model = model;
  job.cluster = topologies::load_cluster("dgx-h100x1");
  job.framework = find_framework(framework);
  job.profile = topologies::shipped_profile();
  job.sequence = std::min<std::int64_t>(4096, model.max_sequence);
  job.global_batch = 8;
  launch.plan.sharded = 8;
  const bool torch = std::string(framework) == "fsdp2";
  launch.plan.sharding = torch ? Sharding::kFull : Sharding::kOptimizer;
  set_hosts(launch);
  return launch;
}

bool names_a_field(const std::string& fault) {
  for (const models::FunctionField& field : models::function_fields()) {
    if (fault.starts_with(std::string(field.key) + " of ")) {
      return true;
    }
  }
  for (const char* key :
       {"position of ", "parallel_block of ", "norms_per_layer of ", "qk_norm_all_heads of ",
        "embedding_dim of ", "embedding_norm of ", "final_norm of ", "norm_bias of ",
        "head_bias of ", "attention_output_bias and mlp_bias of ", "--seq"}) {
    if (fault.starts_with(key)) {
      return true;
    }
  }
  return false;
}

// What reading cannot know, or has under another name.
models::Transformer comparable(models::Transformer model, const models::Transformer& like) {
  model.name = like.name;
  model.max_sequence = like.max_sequence;
  model.position_rows = like.position_rows;
  return model;
}

struct Counts {
  int written = 0, refused = 0;
};

Counts round_trips(LaunchFormat format, const char* file) {
  Counts counts;
  for (const Case& one : cases()) {
    LaunchFile written;
    try {
      written = write_launch(format, launch_of(one.model, "megatron"));
    } catch (const Error& error) {
      EXPECT_TRUE(names_a_field(error.what())) << one.name << ": " << error.what();
      ++counts.refused;
      continue;
    }
    ++counts.written;
    const LaunchConfig config = read_launch(format, written.text, file);
    if (!config.model) {
      ADD_FAILURE() << one.name << ": no model in the file";
      continue;
    }
    EXPECT_TRUE(config.unknown.empty()) << one.name << ": " << config.unknown.front().spelled;
    for (const models::FunctionField& field : models::function_fields()) {
      EXPECT_TRUE(models::same_value(field, config.model->function, one.model.function))
          << one.name << ": " << field.key << " "
          << models::value_text(field, config.model->function) << ", not "
          << models::value_text(field, one.model.function);
    }
    models::Transformer expected = one.model;
    if (expected.moe && expected.moe_layers.empty()) {
      expected.ffn = 0;  // no layer is dense
    }
    EXPECT_EQ(models::write_model_file(comparable(*config.model, expected)).dump(),
              models::write_model_file(expected).dump())
        << one.name;
  }
  testing::Test::RecordProperty("written", counts.written);
  testing::Test::RecordProperty("refused", counts.refused);
  return counts;
}

TEST(FunctionRoundTrip, MegatronHasEveryFieldOrRefusesItByName) {
  const Counts counts = round_trips(LaunchFormat::kMegatron, "run.sh");
  EXPECT_GE(counts.written + counts.refused, 300);
  EXPECT_GE(counts.written, 200);
}

TEST(FunctionRoundTrip, MegatronBridgeHasEveryFieldOrRefusesItByName) {
  const Counts counts = round_trips(LaunchFormat::kMegatronBridge, "run.py");
  EXPECT_GE(counts.written + counts.refused, 300);
  EXPECT_GE(counts.written, 200);
}

// A flavor is matched on what it computes: the shape alone is not enough.
TEST(FunctionRoundTrip, TorchtitanTakesTheFlavorOfTheSameFunctionAlone) {
  int written = 0;
  for (const std::string& preset : models::preset_names()) {
    const models::Transformer model = models::load_model(preset);
    LaunchFile file;
    try {
      file = write_launch(LaunchFormat::kTorchtitan, launch_of(model, "fsdp2"));
    } catch (const Error& error) {
      continue;  // no flavor of its dimensions, or another function: held below
    }
    ++written;
    if (!reads_format(LaunchFormat::kTorchtitan)) {
      continue;
    }
    const LaunchConfig config = read_launch(LaunchFormat::kTorchtitan, file.text, "run.toml");
    const models::Transformer read =
        config.model ? *config.model : models::load_model(config.model_name);
    for (const models::FunctionField& field : models::function_fields()) {
      EXPECT_TRUE(models::same_value(field, read.function, model.function)) << preset << field.key;
    }
  }
  EXPECT_GE(written, 8);
  models::Transformer other = models::load_model("llama-3.1-8b");
  other.function.rotary_base = 10000;
  try {
    write_launch(LaunchFormat::kTorchtitan, launch_of(other, "fsdp2"));
    ADD_FAILURE() << "another rotary base was taken for llama3/8B";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rotary_base 500000, not 10000"), std::string::npos)
        << error.what();
  }
  other = models::load_model("llama-3.1-8b");
  other.tied_embeddings = true;
  EXPECT_THROW(write_launch(LaunchFormat::kTorchtitan, launch_of(other, "fsdp2")), Error);
}

TEST(FunctionRoundTrip, EveryFieldHasASpelling) {
  std::set<std::string> spelled;
  for (const FunctionSpelling& row : function_spellings()) {
    EXPECT_TRUE(spelled.insert(row.key).second) << row.key;
  }
  for (const models::FunctionField& field : models::function_fields()) {
    EXPECT_EQ(spelled.count(field.key), 1U) << field.key;
  }
  EXPECT_EQ(spelled.size(), models::function_fields().size());
}

}  // namespace
}  // namespace trireme::planner
