// The presets that ship, the strict model file, and the door for every way to name a model.
#include "models/presets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json_reader.h"
#include "models/model_file.h"

namespace trireme::models {
namespace {

std::string fault_of_name(const std::string& name_or_path) {
  try {
    load_model(name_or_path);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

// llama3-8b was no name, nor qwen2.5-7b-instruct without its owner, nor deepseek-r1, which launch
// files were read with.
TEST(Presets, GoByTheNamesThatPeopleWrite) {
  const std::map<std::string, std::string> names = {
      {"llama3-8b", "llama-3-8b"},
      {"Llama_3.1_8B", "llama-3.1-8b"},
      {"meta-llama/Llama-3.1-70B-Instruct", "llama-3.1-70b"},
      {"gpt-3-175b", "gpt3-175b"},
      {"qwen2.5-7b-instruct", "qwen2.5-7b"},
      {"Qwen/Qwen3-4B-Instruct-2507", "qwen3-4b"},
      {"gemma-3-27b-it", "gemma-3-27b"},
      {"deepseek-r1", "deepseek-v3"},
      {"deepseek-ai/DeepSeek-V3.1-Base", "deepseek-v3"},
      {"deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "llama-3.3-70b"},
      {"Qwen/Qwen2-7B-Instruct", "qwen2.5-7b"},
      {"Kimi-K2-Thinking", "kimi-k2"}};
  for (const auto& [name, preset] : names) {
    EXPECT_EQ(load_model(name).name, preset) << name;
  }
  // What only holds a preset's name is another model.
  for (const char* name :
       {"llama-3-18b", "llama-3.1-8b-vision", "my-llama-3-8b", "o/w/llama-3-8b"}) {
    EXPECT_NE(fault_of_name(name), "accepted") << name;
  }
  EXPECT_NE(fault_of_name("qwen3-next-80b-a3b").find("linear attention"), std::string::npos);
}

// A folder that is not there was told to have state-space layers for its name, and so was a Llama
// that NVIDIA pruned.
TEST(Presets, WhatNobodyCanDescribeIsToldByNamesOfModelsAlone) {
  const auto is_undescribed = [](const std::string& name) {
    return fault_of_name(name).find("state-space layers") != std::string::npos;
  };
  for (const char* name : {"mamba-2.8b", "state-spaces/mamba-2.8b", "nvidia/Nemotron-Nano-9B-v2",
                           "nvidia/NVIDIA-Nemotron-Nano-12B-v2"}) {
    EXPECT_TRUE(is_undescribed(name)) << name;
  }
  for (const char* name : {"/no/mamba/config.json", "./mamba", "mamba/config.json",
                           "nvidia/Llama-3.1-Nemotron-Nano-4B-v1.1"}) {
    EXPECT_FALSE(is_undescribed(name)) << name;
    EXPECT_NE(fault_of_name(name).find("does not exist"), std::string::npos) << name;
  }
}

TEST(Presets, HaveThePublishedTotals) {
  const std::map<std::string, std::int64_t> totals = {
      {"gpt2", 124'439'808},
      {"gpt3-175b", 174'615'846'912},      // 12 L h^2 (1 + 13/(12h) + (V + s)/(12 L h)) + 2h
      {"megatron-22b", 22'074'273'792},    // Korthikanti: 22B
      {"megatron-530b", 529'600'819'200},  // 530B
      {"megatron-1t", 1'008'038'758'400},  // 1T
      {"llama-2-7b", 6'738'415'616},
      {"llama-2-70b", 68'976'648'192},
      {"llama-3.1-8b", 8'030'261'248},
      {"llama-3.1-70b", 70'553'706'496},
      {"llama-3.1-405b", 405'853'388'800},
      {"llama-3.2-1b", 1'235'814'400},
      {"llama-3.2-3b", 3'212'749'824},
      {"mistral-7b", 7'241'732'096},
      {"mixtral-8x7b", 46'702'792'704},
      {"mixtral-8x22b", 140'620'634'112},
      {"qwen2.5-72b", 72'706'203'648},
      {"qwen3-30b-a3b", 30'532'122'624},
      {"qwen3-235b-a22b", 235'093'634'560},
      {"deepseek-v2", 235'741'434'880},
      {"deepseek-v3", 671'026'419'200},
      {"kimi-k2", 1'026'408'232'448},
      {"gpt-oss-120b", 116'829'156'672},
      {"bloom-176b", 176'247'271'424},
      {"falcon-40b", 41'303'293'952},
      {"gpt-neox-20b", 20'554'567'680},
      {"llama-4-scout", 107'769'861'120},     // 108'641'793'536 with 871'932'416 for images
      {"llama-4-maverick", 400'711'848'960},  // 401'583'781'376 with the same
      {"moonlight-16b-a3b", 15'960'110'208},
      {"qwen3-coder-480b-a35b", 480'154'875'392},
      {"olmo-2-13b", 13'716'198'400},
      {"smollm2-135m", 134'515'008},
      {"smollm2-360m", 361'821'120},
      {"smollm2-1.7b", 1'711'376'384},
      {"smollm3-3b", 3'075'098'624},
      {"minimax-m2", 228'689'764'864},
      {"seed-oss-36b", 36'151'104'512},
      {"ernie-4.5-0.3b", 360'748'032},
      {"hunyuan-a13b", 80'393'183'232},
      {"internlm2-7b", 7'737'708'544},
      {"internlm2-20b", 19'861'149'696},
      {"internlm3-8b", 8'804'241'408},
      {"ministral-8b", 8'019'808'256},
      {"olmoe-1b-7b", 6'919'161'856},
      {"dots.llm1", 142'774'381'696},
      {"granite-3.3-2b", 2'533'539'840},
      {"granite-3.3-8b", 8'170'864'640},
      {"olmo-3-7b", 7'298'011'136},
      {"olmo-3-32b", 32'233'522'176},
      {"mimo-7b", 7'622'619'136},  // 7'833'409'536 with its extra prediction module
      {"ernie-4.5-21b-a3b", 21'825'437'888},
  };
  for (const auto& [name, total] : totals) {
    EXPECT_EQ(parameter_count(load_model(name)), total) << name;
  }
}

TEST(Presets, AllLoadAndAreWhatTheirNamesSay) {
  const std::vector<std::string> names = preset_names();
  EXPECT_GE(names.size(), 80U);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const std::string& name : names) {
    const Transformer model = load_model(name);
    EXPECT_EQ(model.name, name);
    EXPECT_GE(model.vocab, 32000) << name;
  }
}

TEST(Presets, ModelFileReadsBackAsTheSameModel) {
  for (const std::string& name : preset_names()) {
    const Transformer model = load_model(name);
    const std::string text = write_model_file(model).dump(2);
    EXPECT_EQ(read_model_file(parse_json(text, name), name), model) << name;
  }
}

// A folder mistyped as ./llama3-8b was answered with the preset, as if "." were who published it.
TEST(Presets, APathThatIsNotThereIsNoPresetsName) {
  for (const char* path : {"./llama3-8b", "../llama3-8b", "~/llama3-8b"}) {
    EXPECT_NE(fault_of_name(path).find("does not exist"), std::string::npos) << path;
  }
}

TEST(Presets, UnknownNameIsMetWithTheNearest) {
  EXPECT_NE(fault_of_name("llama3.1-9b").find("llama-3.1-8b"), std::string::npos);
  EXPECT_NE(fault_of_name("").find("preset"), std::string::npos);
  EXPECT_NE(fault_of_name(std::string(100'000, 'x')).find("preset"), std::string::npos);
}

// The page that documents the format shows a file that is read.
TEST(Presets, TheDocumentedExampleIsRead) {
  std::ifstream page(std::string(TRIREME_SOURCE_DIR) + "/docs/model_format.md");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  const std::string fence = "```json";
  const auto begin = text.find(fence);
  ASSERT_NE(begin, std::string::npos);
  const auto start = begin + fence.size();
  const std::string example = text.substr(start, text.find("```", start) - start);
  const Transformer model = read_model_file(parse_json(example, "example"), "example");
  EXPECT_EQ(model.name, "my-moe");
  EXPECT_EQ(moe_layer_count(model), 23);
  // Every key that the reader knows is in the table.
  for (const std::string& name : preset_names()) {
    const nlohmann::ordered_json written = write_model_file(load_model(name));
    for (const auto& item : written.items()) {
      EXPECT_NE(text.find("`" + item.key() + "`"), std::string::npos) << item.key();
    }
  }
}

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("trireme_models_" +
               std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }

  std::filesystem::path folder_;
};

const char* const kLlama = R"({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
    "vocab_size": 128256})";

TEST_F(Files, FolderAndFileGiveTheSameModelNamedAfterTheFolder) {
  const std::string file = write("My-Llama/config.json", kLlama);
  EXPECT_EQ(load_model(file), load_model((folder_ / "My-Llama").string()));
  EXPECT_EQ(load_model((folder_ / "My-Llama/").string()).name, "My-Llama");
  EXPECT_EQ(parameter_count(load_model(file)), 8'030'261'248);
}

TEST_F(Files, AByteOrderMarkIsNoFault) {
  EXPECT_EQ(parameter_count(load_model(write("bom.json", std::string("\xEF\xBB\xBF") + kLlama))),
            8'030'261'248);
}

TEST_F(Files, BadFilesAreOneClearLine) {
  const std::map<std::string, std::string> texts = {
      {"empty.json", ""},
      {"blank.json", " \n"},
      {"truncated.json", std::string(kLlama).substr(0, 80)},
      {"notjson.json", "model: llama"},
      {"nan.json", R"({"model_type": "llama", "hidden_size": NaN})"},
      {"huge_number.json", R"({"model_type": "llama", "hidden_size": 1e999})"},
      {"array.json", "[1, 2]"},
      {"binary.json", std::string("\0\x01\xff\xfe", 4)},
      {"bad_utf8.json", "{\"model_type\": \"\xff\xfe\"}"},
      {"deep.json", std::string(100'000, '[')},
  };
  for (const auto& [name, text] : texts) {
    const std::string fault = fault_of_name(write(name, text));
    EXPECT_NE(fault.find(name), std::string::npos) << fault;
    EXPECT_EQ(fault.find('\n'), std::string::npos) << fault;
    EXPECT_LT(fault.size(), 500U) << name;
  }
  EXPECT_NE(fault_of_name((folder_ / "missing.json").string()).find("does not exist"),
            std::string::npos);
  EXPECT_NE(fault_of_name(folder_.string()).find("config.json"), std::string::npos);
}

TEST_F(Files, OwnFormatIsStrict) {
  const auto with = [&](const std::string& key, const nlohmann::json& value) {
    nlohmann::ordered_json json = write_model_file(load_model("mixtral-8x7b"));
    json[key] = value;
    return fault_of_name(write("own.json", json.dump()));
  };
  EXPECT_EQ(with("source", "a paper"), "accepted");
  EXPECT_NE(with("hiden", 4096).find("unknown key"), std::string::npos);
  EXPECT_NE(with("schema", "trireme.transformer/9").find("schema"), std::string::npos);
  EXPECT_NE(with("norm", "batch_norm").find("layer_norm"), std::string::npos);
  EXPECT_NE(with("dense_layers", {32}).find("dense_layers"), std::string::npos);
  EXPECT_NE(with("dense_layers", {-1}).find("dense_layers"), std::string::npos);
  EXPECT_NE(with("moe", {{"experts", 8}}).find("experts_per_token"), std::string::npos);
  EXPECT_NE(with("layers", nullptr).find("layers"), std::string::npos);
  EXPECT_NE(with("heads", 0).find("heads"), std::string::npos);
  EXPECT_NE(with("vocab", "32000").find("vocab"), std::string::npos);
  EXPECT_NE(with("gated_mlp", 1).find("gated_mlp"), std::string::npos);
}

}  // namespace
}  // namespace trireme::models
