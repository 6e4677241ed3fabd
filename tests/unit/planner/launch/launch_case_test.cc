#include "planner/launch/launch_case.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "planner/launch/read_launch.h"

namespace trireme::planner {
namespace {

TEST(LaunchCase, SplitsOfLayers) {
  LaunchLayout layout;
  EXPECT_TRUE(split_of(layout, 32, 4, 1).empty());  // even
  layout.first_stage_layers = 5;
  layout.last_stage_layers = 7;
  EXPECT_EQ(split_of(layout, 32, 4, 1), (std::vector<std::int64_t>{5, 10, 10, 7}));
  EXPECT_TRUE(split_of(layout, 33, 4, 1).empty());  // 21 layers for two stages
  LaunchLayout counted;
  counted.first_chunk_less = counted.last_chunk_less = 1;
  EXPECT_EQ(split_of(counted, 70, 12, 1).front(), 5);
  EXPECT_EQ(split_of(counted, 70, 12, 1)[1], 6);
  EXPECT_EQ(split_of(counted, 126, 8, 2),
            (std::vector<std::int64_t>{7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7}));
}

constexpr const char* kFlags =
    "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "
    "--max-position-embeddings 2048 --vocab-size 50257 --bf16 ";

TEST(LaunchCase, WhatIsFilledIsListed) {
  const LaunchConfig config = read_megatron(kFlags, "args", {});
  const LaunchCase found = make_launch_case(config, {.cluster = "dgx-h100x2"});
  EXPECT_EQ(found.world, 16);
  EXPECT_EQ(found.job.global_batch, 16);
  EXPECT_EQ(found.filled.size(), 3U);  // GPUs, micro-batch, global batch
}

TEST(LaunchCase, TheCommandLineOverridesTheFile) {
  const LaunchConfig config = read_megatron(
      std::string("torchrun --nproc_per_node 8 p.py ") + kFlags + "--global-batch-size 32", "r",
      {});
  const LaunchCase found = make_launch_case(
      config,
      {.model = "gpt2", .cluster = "dgx-h100x2", .sequence = 1024, .global_batch = 64, .gpus = 16});
  EXPECT_EQ(found.job.model.name, "gpt2");
  EXPECT_EQ(found.job.sequence, 1024);
  EXPECT_EQ(found.job.global_batch, 64);
  EXPECT_EQ(found.world, 16);
  EXPECT_EQ(make_launch_case(config, {.cluster = "dgx-h100x2"}).world, 8);
}

TEST(LaunchCase, WithoutAModelItSaysSo) {
  const LaunchConfig config = read_deepspeed(R"({"train_batch_size": 8})", "d.json", {});
  EXPECT_THROW(make_launch_case(config, {.cluster = "dgx-h100x1"}), Error);
}

TEST(LaunchCase, DegreesWithoutEndAreRefused) {
  const LaunchConfig config = read_megatron(
      std::string(kFlags) +
          "--tensor-model-parallel-size 1000000 --pipeline-model-parallel-size 1000000",
      "r", {});
  EXPECT_THROW(make_launch_case(config, {.cluster = "dgx-h100x1"}), Error);
}

// A tokenizer of Hugging Face without a path was Llama 2's, whatever the script is called.
TEST(LaunchCase, TheScriptsNameTellsTheVocabulary) {
  const std::string script =
      "torchrun pretrain_gpt.py --num-layers 4 --hidden-size 1024 --num-attention-heads 8 "
      "--seq-length 1024 --max-position-embeddings 1024 --swiglu --micro-batch-size 1 --bf16 "
      "--tokenizer-type HuggingFaceTokenizer --tokenizer-model $T\n";
  const LaunchConfig named = read_megatron(script, "scripts/train_qwen3_8B_small.sh", {});
  ASSERT_TRUE(named.model);
  EXPECT_EQ(named.model->vocab, 151936);
  EXPECT_EQ(read_megatron(script, "scripts/train.sh", {}).model->vocab, 32000);
}

}  // namespace
}  // namespace trireme::planner
