// slime and miles over Megatron-LM: micro-batches by tokens, batches by rollouts.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/error.h"
#include "planner/launch/read_launch.h"

namespace trireme::planner {
namespace {

constexpr const char* kActor =
    "python3 train.py --actor-num-nodes 1 --actor-num-gpus-per-node 8 --hf-checkpoint "
    "/models/Qwen3-4B --num-layers 36 --hidden-size 2560 --ffn-hidden-size 9728 "
    "--num-attention-heads 32 --group-query-attention --num-query-groups 8 --kv-channels 128 "
    "--swiglu --normalization RMSNorm --qk-layernorm --disable-bias-linear "
    "--position-embedding-type rope --tensor-model-parallel-size 2 --context-parallel-size 2 ";

LaunchConfig read_actor(const std::string& more) {
  return read_megatron(kActor + more, "run.sh", {});
}

bool leaves_lengths_open(const LaunchConfig& config) {
  return std::any_of(
      config.unmodelled.begin(), config.unmodelled.end(),
      [](const std::string& what) { return what.find("length of samples") != std::string::npos; });
}

// The product of degrees wrapped to 0 and was divided by.
TEST(ReadSlime, DegreesThatOverflowAreRefused) {
  const std::string packs =
      "--use-dynamic-batch-size --max-tokens-per-gpu 9216 --global-batch-size 256 ";
  EXPECT_THROW(
      read_actor(packs + "--tensor-model-parallel-size 4194304 "
                         "--pipeline-model-parallel-size 2097152 --context-parallel-size 2097152"),
      Error);
  EXPECT_THROW(read_actor(packs + "--max-tokens-per-gpu 1800000000"), Error);
}

// The micro-batch was one sample of 4096 tokens whatever --max-tokens-per-gpu said, and it fitted.
TEST(ReadSlime, AMicroBatchIsAPackOfTokens) {
  const LaunchConfig config = read_actor(
      "--use-dynamic-batch-size --max-tokens-per-gpu 9216 --global-batch-size 256 "
      "--rollout-max-response-len 8192");
  EXPECT_EQ(config.sequence, 2 * 9216);
  EXPECT_EQ(config.layout.micro_batch, 1);
  EXPECT_EQ(config.global_batch, 128);  // two samples of 8192 a pack
  EXPECT_FALSE(leaves_lengths_open(config));
  // one sample is longer than a pack: it is a micro-batch of its own
  const LaunchConfig longer = read_actor(
      "--use-dynamic-batch-size --max-tokens-per-gpu 9216 --global-batch-size 256 "
      "--rollout-max-response-len 32768");
  EXPECT_EQ(longer.sequence, 32768);
  EXPECT_EQ(longer.global_batch, 256);
  EXPECT_TRUE(leaves_lengths_open(longer));
  // the same number on each of two data-parallel ranks
  EXPECT_EQ(read_actor("--use-dynamic-batch-size --max-tokens-per-gpu 9216 --global-batch-size 9 "
                       "--rollout-max-response-len 8192")
                .global_batch,
            6);
}

// A batch that rollouts make was 1.
TEST(ReadSlime, StepsOfARolloutMakeTheBatch) {
  const LaunchConfig config = read_actor(
      "--rollout-batch-size 32 --n-samples-per-prompt 8 --num-steps-per-rollout 2 "
      "--rollout-max-response-len 4096 --rollout-max-prompt-len 1024 --micro-batch-size 2");
  EXPECT_EQ(config.global_batch, 128);
  EXPECT_EQ(config.layout.micro_batch, 2);
  EXPECT_EQ(config.sequence, 5120);
  EXPECT_TRUE(leaves_lengths_open(config));
}

// The optimizer's states were whole on every rank, and the vocabulary Llama 2's.
TEST(ReadSlime, WhatTheProgramSetsItself) {
  const LaunchConfig config = read_actor("--max-tokens-per-gpu 8192 --use-dynamic-batch-size");
  EXPECT_EQ(config.layout.sharding, Sharding::kOptimizer);
  EXPECT_EQ(config.precision, "bf16");
  ASSERT_TRUE(config.model);
  EXPECT_EQ(config.model->vocab, 151936);
  EXPECT_EQ(config.gpus, 8);
}

// What a program around Megatron-LM trains otherwise was forgotten again: `megatron rlhf
// --rlhf_type grpo` had a verdict.
TEST(ReadSlime, WhatIsTrainedOtherwiseStaysOpen) {
  const auto foreign = [](const std::string& text) {
    return read_megatron(text, "run.sh", {}).foreign;
  };
  EXPECT_EQ(foreign("NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model Qwen/Qwen2.5-7B "
                    "--tensor_model_parallel_size 2 --max_length 4096\n"),
            std::vector<std::string>{"--rlhf_type grpo"});
  EXPECT_EQ(foreign(kActor + std::string("--lora-rank 8 --target-modules router_bank\n")),
            std::vector<std::string>{"--target-modules router_bank"});
}

TEST(ReadSlime, AdaptersOfMiles) {
  const LaunchConfig config = read_actor(
      "--lora-rank 32 --lora-dropout 0.1 --target-modules q_proj,v_proj --max-tokens-per-gpu "
      "8192 --use-dynamic-batch-size");
  EXPECT_EQ(config.training.rank, 32);
  EXPECT_EQ(config.training.adapter_dropout, 0.1);
  EXPECT_EQ(config.training.targets, adapter_targets_of("q,v"));
  EXPECT_EQ(read_actor("--lora-rank 0").training.rank, 0);
}

}  // namespace
}  // namespace trireme::planner
