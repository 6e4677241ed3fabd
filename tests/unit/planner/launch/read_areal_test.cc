// AReaL's YAML: which engine trains by which degrees, packs of tokens, and what lies beside.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "core/error.h"
#include "planner/launch/read_launch.h"
#include "planner/launch/trainers/areal_stages.h"
#include "tests/unit/planner/launch/chosen.h"

namespace trireme::planner {
namespace {

class ReadAreal : public testing::Test {
 protected:
  void SetUp() override {
    if (!reads_format(LaunchFormat::kAccelerate)) {
      GTEST_SKIP() << "built without yaml-cpp";
    }
  }
  static LaunchConfig areal_of(const std::string& text,
                               const std::vector<std::string>& arguments = {}) {
    EXPECT_TRUE(is_areal(text, "run.yaml")) << text;
    return read_areal(text, "run.yaml", arguments);
  }
};

const std::string kActorOfAreal =
    "cluster:\n  n_gpus_per_node: 8\n"
    "gconfig:\n  n_samples: 4\n  max_new_tokens: 1024\n"
    "rollout:\n  backend: sglang:d4\n"
    "actor:\n  backend: fsdp:d2t2c2\n  path: Qwen/Qwen3-8B\n  gradient_checkpointing: true\n"
    "  dtype: bfloat16\n  mb_spec:\n    max_tokens_per_mb: 10240\n  ppo_n_minibatches: 2\n"
    "  megatron:\n    ddp:\n      grad_reduce_in_fp32: false\n"
    "    virtual_pipeline_parallel_size: 2\n    recompute_method: null\n"
    "    fp8_config:\n      mode: hybrid\n      recipe: blockwise\n"
    "ref:\n  backend: ${actor.backend}\n  scheduling_strategy:\n    type: colocation\n"
    "    target: actor\n"
    "train_dataset:\n  batch_size: 256\n  max_length: 1024\n";

// It was refused with a hint to write the job by hand.
TEST_F(ReadAreal, FsdpShardsOverDataAndUlysses) {
  const LaunchConfig config = areal_of(kActorOfAreal);
  EXPECT_EQ(config.framework, "fsdp2");
  EXPECT_EQ(config.model_name, "qwen3-8b");
  EXPECT_EQ(config.gpus, 8);
  EXPECT_EQ(config.gpus_per_node, 8);
  EXPECT_EQ(config.layout.tensor, 2);
  EXPECT_TRUE(config.layout.sequence_parallel);
  EXPECT_EQ(config.layout.context, 2);
  EXPECT_EQ(config.layout.sharding, Sharding::kFull);
  EXPECT_EQ(config.layout.recompute, Recompute::kFull);
  EXPECT_TRUE(chooses(config, "context_all_to_all=true"));
  EXPECT_TRUE(chooses(config, "parameter_dtype=bf16"));
  EXPECT_TRUE(chooses(config, "reduce_dtype=fp32"));
}

// 256 prompts x 4 answers in two steps, of 2048 tokens each: five fill a pack, and every one of two
// ranks holds as many packs.
TEST_F(ReadAreal, AMicroBatchIsAPackOfTokens) {
  const LaunchConfig config = areal_of(kActorOfAreal);
  EXPECT_EQ(config.sequence, 10240);
  EXPECT_EQ(config.layout.micro_batch, 1);
  EXPECT_EQ(config.global_batch, 104);
  const LaunchConfig more = areal_of(kActorOfAreal, {"actor.mb_spec.n_mbs=60"});
  EXPECT_EQ(more.global_batch, 120);
  const LaunchConfig talks = areal_of(kActorOfAreal, {"rollout.agent.engine_max_tokens=10000"});
  EXPECT_EQ(talks.global_batch, 512);
  const LaunchConfig parts =
      areal_of(kActorOfAreal, {"actor.mb_spec.max_tokens_per_mb=null", "actor.mb_spec.n_mbs=16"});
  EXPECT_EQ(parts.sequence, 2048);
  EXPECT_EQ(parts.layout.micro_batch, 16);
  EXPECT_EQ(parts.global_batch, 512);
}

TEST_F(ReadAreal, MegatronTakesTheDegreesOfAttentionAndExperts) {
  const LaunchConfig config =
      areal_of(kActorOfAreal, {"actor.backend=megatron:(attn:d4p4t2|ffn:d2p4t1e4)"});
  EXPECT_EQ(config.format, LaunchFormat::kMegatron);
  EXPECT_EQ(config.gpus, 32);
  EXPECT_EQ(config.layout.tensor, 2);
  EXPECT_EQ(config.layout.pipeline, 4);
  EXPECT_EQ(config.layout.virtual_pipeline, 2);
  EXPECT_EQ(config.layout.expert, 4);
  EXPECT_EQ(config.layout.expert_tensor, 1);
  EXPECT_EQ(config.layout.recompute, Recompute::kFull);
  EXPECT_EQ(config.layout.sharding, Sharding::kOptimizer);
  EXPECT_EQ(config.precision, "fp8");
  EXPECT_TRUE(chooses(config, "grad_dtype=bf16"));
  EXPECT_EQ(*config.global_batch % (4 * 4), 0);  // as many packs as stages, on every rank
}

// 94 layers over 12 stages were refused as uneven: AReaL spreads them by their parameters.
TEST_F(ReadAreal, StagesAreBalancedByParameters) {
  using Layers = std::vector<std::int64_t>;
  EXPECT_EQ(balanced_stages(std::vector<double>(7, 1.0), 2, 1, 3), (Layers{1, 3, 3}));
  EXPECT_EQ(balanced_stages({1, 1}, 5, 5, 4), (Layers{0, 1, 1, 0}));
  EXPECT_EQ(balanced_stages({1, 1}, 5, 5, 5), Layers{});
  const LaunchConfig config =
      areal_of(kActorOfAreal, {"actor.backend=megatron:(attn:d1p12t4|ffn:d1p12e4)",
                               "actor.path=Qwen/Qwen3-235B-A22B",
                               "actor.megatron.virtual_pipeline_parallel_size=1"});
  const Layers& stages = config.layout.stage_layers;
  ASSERT_EQ(stages.size(), 12U);
  EXPECT_EQ(std::accumulate(stages.begin(), stages.end(), std::int64_t{0}), 94);
  EXPECT_EQ(*std::max_element(stages.begin(), stages.end()), 8);
}

// Archon was refused: torchtitan's axes and modes of recompute under the engine's own names.
TEST_F(ReadAreal, ArchonHasStagesExpertsAndTorchtitansRecompute) {
  std::string text = kActorOfAreal;
  text.replace(text.find("fsdp:d2t2c2"), 11, "archon:d2p2t2");
  text.insert(text.find("  mb_spec:"),
              "  archon:\n    ac_mode: selective\n"
              "    pp_schedule: 1F1B\n    enable_compile: true\n");
  const LaunchConfig config = areal_of(text);
  EXPECT_EQ(config.framework, "fsdp2");
  EXPECT_EQ(config.gpus, 8);
  EXPECT_EQ(config.layout.pipeline, 2);
  EXPECT_EQ(config.layout.schedule, Schedule::kOneForwardOneBackward);
  EXPECT_FALSE(config.layout.reshard_after_forward);  // not under a pipeline, by default
  EXPECT_EQ(config.layout.recompute, Recompute::kSelective);
  EXPECT_EQ(config.layout.recompute_modules, kTorchPerOp);
  EXPECT_TRUE(chooses(config, "compile=true"));
  const LaunchConfig layers = areal_of(
      text, {"actor.archon.selective_ac_option=2", "actor.archon.fp8_config.mode=blockwise"});
  EXPECT_EQ(layers.layout.recompute, Recompute::kFull);
  EXPECT_EQ(layers.layout.recompute_every, 2);
  EXPECT_EQ(layers.precision, "fp8");
}

// allocation_mode of 2025, where actors lie beside servers and d4p2 alone named no engine.
TEST_F(ReadAreal, TheActorOfAnAllocationModeIsFound) {
  const auto gpus = [](const std::string& mode) {
    std::string text = kActorOfAreal;
    text.replace(text.find("  backend: fsdp:d2t2c2\n"), 23, "");
    return areal_of("allocation_mode: " + mode + "\n" + text);
  };
  EXPECT_EQ(gpus("sglang:d8t2+fsdp:d4").gpus, 4);
  EXPECT_EQ(gpus("sglang.d12p1t1+d4p1t1").framework, "fsdp2");
  EXPECT_EQ(gpus("sglang.d12p1t1+d4p2t1").format, LaunchFormat::kMegatron);
  EXPECT_EQ(gpus("vllm[r]:d2+fsdp[a]:d4|fsdp[c]:d4").gpus, 4);
  EXPECT_EQ(gpus("sglang:d2+megatron:(attn:d2p2|ffn:e4)").layout.expert, 4);
  EXPECT_THROW(gpus("sglang:d4"), Error);
}

TEST_F(ReadAreal, WhatNoEngineTakesIsRefused) {
  for (const char* backend : {"fsdp:d4p2", "fsdp:d4e2", "veomni:d8", "fsdp:", "fsdp:d0", "fsdp:x4",
                              "megatron:(attn:d1p4|ffn:p2e4)", "megatron:d1000000p1000000"}) {
    EXPECT_THROW(areal_of(kActorOfAreal, {std::string("actor.backend=") + backend}), Error)
        << backend;
  }
}

TEST_F(ReadAreal, AdaptersHaveTheirRankAndTargets) {
  std::string text = kActorOfAreal;
  text.insert(text.find("  dtype: bfloat16\n"),
              "  use_lora: true\n  lora_rank: 16\n  target_modules: [q_proj, v_proj]\n");
  const LaunchConfig some = areal_of(text);
  EXPECT_EQ(some.training.rank, 16);
  EXPECT_EQ(some.training.targets, adapter_targets_of("q_proj,v_proj"));
  const LaunchConfig all = areal_of(text, {"actor.target_modules=[all-linear]"});
  EXPECT_EQ(all.training.targets, kLinearTargets);
  EXPECT_TRUE(all.foreign.empty());
}

TEST_F(ReadAreal, ModelsOnTheSameGpusAreNamed) {
  EXPECT_EQ(areal_of(kActorOfAreal).beside.size(), 1U);
  EXPECT_TRUE(areal_of(kActorOfAreal, {"ref.offload=true"}).beside.empty());
  EXPECT_TRUE(areal_of(kActorOfAreal, {"ref.scheduling_strategy.type=separation"}).beside.empty());
}

// Pairs of answers are two samples of the packs; rewards have a head of their own.
TEST_F(ReadAreal, PairsAreTwoSamples) {
  const std::string text =
      "actor:\n  backend: fsdp:d8\n  path: Qwen/Qwen3-8B\n  mb_spec:\n    max_tokens_per_mb: 4096\n"
      "train_dataset:\n  batch_size: 64\n  max_length: 2048\n  type: ";
  EXPECT_EQ(areal_of(text + "sft\n").global_batch, 32);
  EXPECT_EQ(areal_of(text + "dpo\n").global_batch, 64);
  EXPECT_TRUE(areal_of(text + "dpo\n").foreign.empty());
  EXPECT_FALSE(areal_of(text + "rw\n").foreign.empty());
}

// A reference that leads back to itself ends, and one to nothing is as if it were not said.
TEST_F(ReadAreal, ReferencesEnd) {
  std::string text = kActorOfAreal;
  text.replace(text.find("n_samples: 4"), 12, "n_samples: ${gconfig.n_samples}");
  const LaunchConfig config = areal_of(text, {"actor.dtype=${nowhere.dtype}"});
  EXPECT_EQ(config.global_batch, 26);
  EXPECT_EQ(config.precision, "bf16");
}

}  // namespace
}  // namespace trireme::planner
