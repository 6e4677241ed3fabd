// `trireme check` as people and scripts use it, and what `export` wrote read back.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "export_run.h"
#include "planner/launch/read_launch.h"

namespace trireme::tools {
namespace {

std::string script_file(const std::string& name, const std::string& text) {
  std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

constexpr const char* kScript =
    "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
    "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --num-layers 32 --hidden-size 4096 \\\n"
    " --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention --num-query-groups "
    "8 \\\n"
    " --seq-length 8192 --max-position-embeddings 8192 --position-embedding-type rope --swiglu \\\n"
    " --normalization RMSNorm --untie-embeddings-and-output-weights --disable-bias-linear \\\n"
    " --vocab-size 128256 --bf16 --attention-dropout 0 --hidden-dropout 0 --micro-batch-size 1 \\\n"
    " --global-batch-size 128 --use-distributed-optimizer --overlap-grad-reduce "
    "--overlap-param-gather \\\n"
    " --tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 2\n";

TEST(Check, FixedKeysAndTheSameNumbersAsEstimate) {
  const std::string path = script_file("run.sh", kScript);
  const Exported result = run_words("check " + path + " --cluster dgx-h100x2 --json");
  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("schema"), "trireme.check/1");
  EXPECT_EQ(json.at("source"), path);
  EXPECT_EQ(json.at("violations").size(), 0U);
  const Exported estimated = run_words(
      "estimate --model llama-3-8b --cluster dgx-h100x2 --seq 8192 --global-batch 128 --framework "
      "megatron "
      "--tp 2 --pp 2 --sharding optimizer --json");
  const auto same = nlohmann::json::parse(estimated.out);
  EXPECT_EQ(json.at("layout"), same.at("layout"));
  EXPECT_EQ(json.at("estimate").at("time"), same.at("time"));
  EXPECT_EQ(json.at("estimate").at("memory"), same.at("memory"));
  ASSERT_FALSE(json.at("better").is_null());
  EXPECT_LT(json.at("better").at("time").at("step_seconds").get<double>() * 1.02,
            json.at("estimate").at("time").at("step_seconds").get<double>());
}

TEST(Check, ABrokenRuleExitsOneAndWithoutALayoutBothAreNull) {
  const std::string path = script_file("run.sh", kScript);
  const Exported result = run_words(
      "check " + path + " --cluster dgx-h100x2 --json -- --pipeline-model-parallel-size 3");
  EXPECT_EQ(result.code, 1);
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_TRUE(json.at("layout").is_null());
  EXPECT_TRUE(json.at("estimate").is_null());
  EXPECT_FALSE(json.at("better").is_null());
  ASSERT_FALSE(json.at("violations").empty());
  for (const auto& violation : json.at("violations")) {
    EXPECT_EQ(violation.at("severity"), "error");
    EXPECT_FALSE(violation.at("rule").get<std::string>().empty());
    EXPECT_FALSE(violation.at("fix").get<std::string>().empty()) << violation;
  }
}

TEST(Check, WhatDoesNotFitExitsOneWithItsEstimate) {
  const std::string path = script_file("run.sh", kScript);
  const Exported result = run_words(
      "check " + path +
      " --cluster dgx-a100-40gbx2 --json -- --micro-batch-size 8 --pipeline-model-parallel-size 1");
  EXPECT_EQ(result.code, 1);
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_FALSE(json.at("estimate").at("fits").get<bool>());
  EXPECT_FALSE(json.at("better").is_null());
  EXPECT_TRUE(json.at("better").at("fits").get<bool>());
}

TEST(Check, TheBetterLayoutHasNoBetterOne) {
  const std::string path = script_file(
      "ds.json",
      R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3}})");
  const std::string job =
      " --cluster dgx-h100x1 --model llama-3.2-1b --seq 4096 --global-batch 64 --json";
  const auto first = nlohmann::json::parse(run_words("check " + path + job).out);
  ASSERT_FALSE(first.at("better").is_null());
  EXPECT_EQ(first.at("better").at("layout").at("pp"), 1);  // no pipeline in DeepSpeed's JSON
}

TEST(Check, BadInputIsOneLineAndCodeTwo) {
  const std::string good = script_file("run.sh", kScript);
  const std::string line = " --cluster dgx-h100x1";
  for (const std::string& words :
       {std::string("check"), "check " + good, "check nowhere.sh" + line, "check /tmp" + line,
        "check " + script_file("empty.sh", "") + line,
        "check " + script_file("words.txt", "hello\n") + line,
        "check " + script_file("x.toml", "[model\n") + line,
        "check " + script_file("x.json", "{") + line,
        "check " + script_file("x.yaml", "a: [") + line, "check " + good + line + " --format cobol",
        "check " + good + line + " --format torchtitan", "check " + good + " --cluster moon",
        "check " + script_file("y.json", "{\"train_batch_size\": 8}") + line,
        "check " + good + line + " -- --tensor-model-parallel-size x"}) {
    const Exported result = run_words(words);
    const bool missing = result.code == 3 && result.err.find("built without") != std::string::npos;
    EXPECT_TRUE(result.code == 2 || missing) << words << result.out;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << words << result.err;
    EXPECT_EQ(result.err.find("internal error"), std::string::npos) << result.err;
  }
}

TEST(Check, AFileWithoutEndIsRefusedBySize) {
  const Exported result = run_words("check /dev/zero --cluster dgx-h100x2");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("more than 4000000 bytes"), std::string::npos) << result.err;
  EXPECT_EQ(run_words("check /dev/null --cluster dgx-h100x2").code, 2);
}

// Answers that took the square of the layers do not end here (launch_rules_test.cc has the cause).
TEST(Check, ADeepModelIsAnswered) {
  const std::string path = script_file("run.sh", kScript);
  const Exported result =
      run_words("check " + path + " --cluster dgx-h100x2 -- --num-layers 100000");
  EXPECT_EQ(result.code, 1) << result.err;
}

TEST(Check, PeopleReadWhatIsBrokenAndWhatWouldBeRight) {
  const std::string path = script_file("run.sh", kScript);
  const Exported result = run_words(
      "check " + path + " --cluster dgx-h100x2 -- --tensor-model-parallel-size 3 --new 1");
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.out.find("error: heads % tp: 32 attention heads are not divisible by tp 3"),
            std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("use --tensor-model-parallel-size"), std::string::npos);
  EXPECT_NE(result.out.find("1 setting is not known"), std::string::npos);
}

// What export writes, check reads as the same layout without a violation and with the plan's
// numbers.
struct Round {
  const char* format;
  const char* file;
  const char* options;  // of estimate and export
  const char* check;    // what the format itself does not hold
};
constexpr Round kRounds[] = {
    {"megatron", "r1.sh",
     "--model llama-3.1-8b --cluster dgx-h100x2 --framework megatron --seq 8192 --global-batch 64 "
     "--tp 2 --pp 2 "
     "--sharding optimizer --schedule 1f1b",
     ""},
    {"megatron", "r2.sh",
     "--model gpt3-175b --cluster dgx-a100-80gbx16 --framework megatron --seq 2048 --global-batch "
     "96 --tp 8 --pp 8 "
     "--vpp 2 --recompute selective",
     ""},
    {"megatron", "r3.sh",
     "--model llama-3.1-70b --cluster dgx-h100x8 --framework megatron --seq 8192 --global-batch 64 "
     "--tp 4 --pp 4 "
     "--cp 2 --sharding optimizer --recompute full --recompute-layers 4",
     ""},
    {"megatron", "r4.sh",
     "--model mixtral-8x7b --cluster dgx-h100x2 --framework megatron --seq 4096 --global-batch 64 "
     "--ep 8 --pp 2 "
     "--sharding optimizer",
     ""},
    {"megatron", "r5.sh",
     "--model llama-3.1-8b --cluster dgx-h100x1 --framework megatron-fsdp --seq 8192 "
     "--global-batch 16 --sharding full",
     ""},
    {"megatron", "r6.sh",
     "--model llama-3.1-70b --cluster dgx-h100x8 --framework megatron --seq 4096 --global-batch 64 "
     "--tp 8 --pp 4 "
     "--stage-layers 19,21,21,19",
     ""},
    {"torchtitan", "r1.toml",
     "--model llama-3.1-8b --cluster dgx-h100x1 --framework torchtitan --seq 8192 --global-batch "
     "16 "
     "--sharding full "
     "--micro-batch 2 --recompute-modules op --set compile=true",
     ""},
    {"torchtitan", "r2.toml",
     "--model llama-3.1-70b --cluster dgx-h100x8 --framework torchtitan --seq 8192 --global-batch "
     "64 "
     "--tp 8 --pp 4 "
     "--sharding full --recompute full",
     ""},
    {"deepspeed", "r1.json",
     "--model llama-3.1-8b --cluster dgx-h100x2 --framework deepspeed --seq 4096 --global-batch 64 "
     "--sharding gradients",
     "--model llama-3.1-8b --seq 4096"},
    {"accelerate", "r1.yaml",
     "--model llama-3.2-3b --cluster dgx-h100x1 --framework accelerate --seq 4096 --global-batch "
     "16 "
     "--sharding full "
     "--recompute full --set reduce_dtype=bf16",
     "--model llama-3.2-3b --seq 4096 --global-batch 16"},
    {"megatron-bridge", "r1.py",
     "--model llama-3.1-70b --cluster dgx-h100x8 --framework megatron --seq 8192 --global-batch 64 "
     "--tp 4 --pp 4 "
     "--sharding optimizer --recompute full",
     ""},
};

TEST(Check, WhatExportWroteIsReadBackAsTheSamePlan) {
  for (const Round& round : kRounds) {
    if (!planner::reads_format(planner::launch_format_of(round.format))) {
      continue;  // built without toml++ or yaml-cpp
    }
    SCOPED_TRACE(std::string(round.file) + " " + round.options);
    const std::string options = round.options;
    const std::string path = testing::TempDir() + round.file;
    const Exported wrote =
        run_words("export " + options + " --format " + round.format + " -o " + path);
    ASSERT_EQ(wrote.code, 0) << wrote.err;
    const auto plan = nlohmann::json::parse(run_words("estimate " + options + " --json").out);
    const std::size_t cluster = options.find("--cluster");
    const std::string on = options.substr(cluster, options.find(' ', cluster + 10) - cluster);
    const Exported read = run_words("check " + path + " " + on + " " + round.check + " --json");
    ASSERT_LT(read.code, 2) << read.err;
    const auto json = nlohmann::json::parse(read.out);
    EXPECT_EQ(json.at("violations"), nlohmann::json::array());
    ASSERT_FALSE(json.at("estimate").is_null());
    for (const char* key :
         {"tp", "pp", "vpp", "dp", "fsdp", "cp", "ep", "sharding", "micro_batch", "micro_batches",
          "recompute", "schedule", "sequence_parallel", "recompute_layers"}) {
      EXPECT_EQ(json.at("layout").at(key), plan.at("layout").at(key)) << key;
    }
    const auto& model = json.at("estimate").at("model");
    EXPECT_EQ(model.at("parameters"), plan.at("model").at("parameters"));
    const auto close = [&](const char* part, const char* key) {
      const double a = json.at("estimate").at(part).at(key).get<double>();
      const double b = plan.at(part).at(key).get<double>();
      EXPECT_NEAR(a, b, 1e-6 * b) << part << "." << key;
    };
    close("time", "step_seconds");
    close("memory", "peak_allocated_gib");
  }
}

}  // namespace
}  // namespace trireme::tools
