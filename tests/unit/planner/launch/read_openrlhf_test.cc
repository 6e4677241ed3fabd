// OpenRLHF under DeepSpeed, by the flags of 2025 and by those with sections.
#include <gtest/gtest.h>

#include <string>

#include "core/error.h"
#include "planner/launch/read_launch.h"

namespace trireme::planner {
namespace {

LaunchConfig openrlhf_of(const std::string& text) {
  EXPECT_TRUE(is_openrlhf(text, "run.sh"));
  return read_openrlhf(text, "run.sh", {}, {});
}

// It was refused with a hint to write the job by hand.
TEST(ReadOpenRlhf, FineTuningIsReadByTheFlagsOfBothYears) {
  const LaunchConfig older = openrlhf_of(
      "deepspeed --num_gpus 8 --module openrlhf.cli.train_sft --max_len 4096 "
      "--train_batch_size 256 --micro_train_batch_size 2 --pretrain meta-llama/Meta-Llama-3-8B "
      "--zero_stage 2 --bf16 --flash_attn --gradient_checkpointing");
  const LaunchConfig newer = openrlhf_of(
      "deepspeed --num_gpus 8 --module openrlhf.cli.train_sft --data.max_len 4096 "
      "--train.batch_size 256 --train.micro_batch_size 2 "
      "--model.model_name_or_path meta-llama/Meta-Llama-3-8B --ds.zero_stage 2 "
      "--ds.param_dtype bf16 --model.gradient_checkpointing_enable");
  for (const LaunchConfig& config : {older, newer}) {
    EXPECT_EQ(config.format, LaunchFormat::kDeepspeed);
    EXPECT_EQ(config.model_name, "llama-3-8b");
    EXPECT_EQ(config.gpus, 8);
    EXPECT_EQ(config.sequence, 4096);
    EXPECT_EQ(config.global_batch, 256);
    EXPECT_EQ(config.layout.micro_batch, 2);
    EXPECT_EQ(config.layout.sharding, Sharding::kGradients);
    EXPECT_EQ(config.layout.recompute, Recompute::kFull);
    EXPECT_EQ(config.precision, "bf16");
    EXPECT_NE(config.attention, "unfused");
  }
}

// Without --bf16 weights are in fp32, and without --flash_attn scores are written out.
TEST(ReadOpenRlhf, DefaultsAreThoseOfTheirYear) {
  const LaunchConfig older = openrlhf_of(
      "deepspeed --module openrlhf.cli.train_sft --train_batch_size 64 --pretrain Qwen/Qwen3-8B");
  EXPECT_EQ(older.precision, "fp32");
  EXPECT_EQ(older.attention, "unfused");
  EXPECT_EQ(older.sequence, 512);
  const LaunchConfig newer = openrlhf_of(
      "deepspeed --module openrlhf.cli.train_sft --train.batch_size 64 --model.model_name_or_path "
      "Qwen/Qwen3-8B");
  EXPECT_EQ(newer.precision, "bf16");
  EXPECT_EQ(newer.sequence, 2048);
}

const std::string kPpo =
    "python3 -m openrlhf.cli.train_ppo_ray --actor.num_nodes 1 --actor.num_gpus_per_node 8 "
    "--actor.model_name_or_path Qwen/Qwen3-8B --ds.zero_stage 3 --train.batch_size 128 "
    "--rollout.batch_size 256 --rollout.n_samples_per_prompt 2 --data.max_len 2048 "
    "--algo.advantage.estimator group_norm --algo.kl.init_coef 0 ";

TEST(ReadOpenRlhf, TheActorTakesPacksOrSamples) {
  const LaunchConfig samples = openrlhf_of(kPpo + "--train.micro_batch_size 4");
  EXPECT_EQ(samples.gpus, 8);
  EXPECT_EQ(samples.layout.micro_batch, 4);
  EXPECT_EQ(samples.global_batch, 128);
  EXPECT_TRUE(samples.beside.empty());
  const LaunchConfig packs =
      openrlhf_of(kPpo + "--train.dynamic_batch_enable --train.max_tokens_per_gpu 8192");
  EXPECT_EQ(packs.sequence, 8192);
  EXPECT_EQ(packs.global_batch, 32);  // four samples of 2048 each
}

TEST(ReadOpenRlhf, WhatSharesTheActorsGpusIsNamed) {
  EXPECT_EQ(openrlhf_of(kPpo + "--train.colocate_all --vllm.num_engines 4").beside.size(), 1U);
  EXPECT_TRUE(openrlhf_of(kPpo + "--train.colocate_all --vllm.num_engines 4 --vllm.enable_sleep")
                  .beside.empty());
  EXPECT_EQ(openrlhf_of(kPpo + "--train.colocate_actor_ref --algo.kl.init_coef 0.01").beside,
            std::vector<std::string>{"the reference model"});
}

TEST(ReadOpenRlhf, PreferencesHaveACopyThatJudges) {
  const LaunchConfig config = openrlhf_of(
      "deepspeed --module openrlhf.cli.train_dpo --train_batch_size 64 "
      "--micro_train_batch_size 1 --pretrain Qwen/Qwen3-8B --max_len 2048 --bf16 --flash_attn "
      "--ring_attn_size 2");
  EXPECT_TRUE(config.training.reference);
  EXPECT_EQ(config.sequences_a_sample, 2);
  EXPECT_EQ(config.layout.context, 2);
}

TEST(ReadOpenRlhf, OtherTrainingLeavesTheVerdictOpen) {
  for (const char* task : {"rm", "kd"}) {
    EXPECT_EQ(openrlhf_of(std::string("deepspeed --module openrlhf.cli.train_") + task +
                          " --train_batch_size 64 --pretrain Qwen/Qwen3-8B")
                  .foreign.size(),
              1U)
        << task;
  }
}

// What the script prints first was judged, without its launcher.
TEST(ReadOpenRlhf, ACommandThatIsPrintedIsNotTheOneThatIsJudged) {
  const LaunchConfig config = openrlhf_of(
      "A=\"openrlhf.cli.train_sft --train_batch_size 64 --pretrain Qwen/Qwen3-8B\"\necho $A\n"
      "torchrun --nproc_per_node 4 -m $A");
  EXPECT_EQ(config.gpus, 4);
}

TEST(ReadOpenRlhf, NumbersThatOverflowAreRefused) {
  EXPECT_THROW(openrlhf_of(kPpo + "--ds.tensor_parallel_size 1000000000"), Error);
  EXPECT_THROW(openrlhf_of(kPpo + "--train.max_tokens_per_gpu x --train.dynamic_batch_enable"),
               Error);
}

// They were one host, whatever the cluster.
TEST(ReadOpenRlhf, HostsThatAVariableLeavesOpenAreThoseOfTheCluster) {
  const std::string start =
      "python3 -m openrlhf.cli.train_ppo_ray --pretrain meta-llama/Meta-Llama-3-8B --zero_stage 3 "
      "--bf16 --actor_num_gpus_per_node 8 --actor_num_nodes $NNODES";
  EXPECT_FALSE(openrlhf_of(start).gpus.has_value());
  EXPECT_EQ(openrlhf_of("NNODES=4\n" + start).gpus, 32);
}

}  // namespace
}  // namespace trireme::planner
