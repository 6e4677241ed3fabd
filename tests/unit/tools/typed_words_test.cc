// Words as people type them.
#include "tests/unit/tools/planned.h"

namespace trireme::tools {
namespace {

using nlohmann::json;

TEST(Typed, WhatTheModelDoesNotHaveIsNotRecomputed) {
  for (const char* command : {"estimate --layout fsdp8.mb1", "plan", "whatif --vary seq=4096"}) {
    const Exported result =
        run_words(std::string(command) + " " + kEight + "--recompute-modules moe");
    EXPECT_EQ(result.code, 2) << command;
    EXPECT_NE(result.err.find("has no experts"), std::string::npos) << result.err;
  }
}

TEST(Typed, NearNamesOfOptionsAreNamed) {
  for (const auto& [typed, right] : {std::pair{"--tensor-parallel", "--tp"},
                                     {"--mbs", "--micro-batch"},
                                     {"--gbs", "--global-batch"},
                                     {"--zero", "--sharding"},
                                     {"--seq-length", "--seq"},
                                     {"--seq_length", "--seq"},
                                     {"--micro-bach", "--micro-batch"}}) {
    const Exported result = run_words("plan " + kEight + typed + " 8");
    EXPECT_EQ(result.code, 2);
    EXPECT_NE(result.err.find(right), std::string::npos) << typed << ": " << result.err;
  }
}

TEST(Typed, WordsOfOthersAreUnderstood) {
  const json plain = plan_of(kEight + "--framework torchtitan --precision bf16 --optimizer adam");
  const json typed = plan_of(
      "--model meta-llama/Llama-3.1-8B-Instruct --cluster dgx-h100x1 --global-batch 128 --seq 8k "
      "--framework torchtitan --precision bfloat16 --optimizer AdamW");
  EXPECT_EQ(typed["best"]["layout"], plain["best"]["layout"]);
  EXPECT_EQ(typed["best"]["time"], plain["best"]["time"]);
  for (const auto& [typed_word, sharding] : {std::pair{"zero3", "full"},
                                             {"zero-3", "full"},
                                             {"ZeRO_3", "full"},
                                             {"full-shard", "full"},
                                             {"zero-1", "optimizer"}}) {
    const json sharded = plan_of(kEight + "--dp 1 --fsdp 8 --sharding " + typed_word);
    EXPECT_EQ(sharded["best"]["layout"]["sharding"], sharding) << typed_word;
  }
  for (const auto& [typed_word, schedule] :
       {std::pair{"ZBVZeroBubble", "zb-v"}, {"ZBV", "zb-v"}, {"DualPipeV", "dualpipe-v"}}) {
    const json in_a_v = plan_of(kEight + "--pp 2 --schedule " + typed_word);
    EXPECT_EQ(in_a_v["best"]["layout"]["schedule"], schedule) << typed_word;
  }
  const Exported second = run_words("plan " + kEight + "--framework deepspeed --sharding zero-2");
  EXPECT_NE(second.err.find("zero-2"), 0U);
  EXPECT_NE(second.code, 2) << second.err;
}

TEST(Typed, AClusterWithoutItsMakerNamesTheOneThatHasIt) {
  const Exported result = run_words("plan --model llama-3.1-8b --cluster h100x8");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("8xh100 is so many GPUs, dgx-h100x8"), std::string::npos) << result.err;
}

// llama-70b was answered with llama-30b and llama-7b.
TEST(Typed, AModelWithoutItsVersionNamesThoseOfItsSize) {
  for (const auto& [typed, near] : {std::pair{"llama-70b", "llama-3.1-70b"},
                                    {"llama70b", "llama-3.1-70b"},
                                    {"qwen-32b", "qwen3-32b"},
                                    {"deepseek", "deepseek-v3"},
                                    {"llama-3.1-8", "llama-3.1-8b"},
                                    {"llama-3.1-8bb", "llama-3.1-8b"}}) {
    const Exported result = run_words(std::string("plan --cluster dgx-h100x1 --model ") + typed);
    EXPECT_EQ(result.code, 2);
    EXPECT_NE(result.err.find(near), std::string::npos) << typed << ": " << result.err;
  }
}

// cluster=0.5x,1x,2x was told to be right.
TEST(Typed, AChangeWithoutValuesIsShownOnesThatItTakes) {
  for (const auto& [name, right] : {std::pair{"cluster", "cluster=dgx-h100x8,hgx-h200x8"},
                                    {"precision", "precision=bf16,fp8"},
                                    {"memory", "memory=0.5x,1x,2x"},
                                    {"tp", "tp=1,2,4"}}) {
    const std::string job = "whatif --model llama-3.1-8b --cluster dgx-h100x1 --vary ";
    const Exported empty = run_words(job + name + "=");
    EXPECT_EQ(empty.code, 2);
    EXPECT_NE(empty.err.find(right), std::string::npos) << empty.err;
    EXPECT_NE(run_words(job + right).code, 2) << right;
  }
}

TEST(Typed, ModelsAndTopologiesAreNamedWithoutAFlag) {
  EXPECT_NE(run_words("models llama-3.1-8b").out.find("8.0B"), std::string::npos);
  EXPECT_EQ(run_words("topo show dgx-h100x1").code, 0);
}

}  // namespace
}  // namespace trireme::tools
