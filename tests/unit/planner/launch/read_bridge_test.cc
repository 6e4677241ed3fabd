#include <gtest/gtest.h>

#include "core/error.h"
#include "models/model_names.h"
#include "planner/launch/launch_case.h"
#include "planner/launch/megatron/megatron.h"
#include "planner/launch/read_launch.h"

namespace trireme::planner {
namespace {

constexpr const char* kPython =
    R"(from megatron.bridge.recipes.llama import llama31_70b_pretrain_config as recipe
cfg = recipe()
cfg.model.tensor_model_parallel_size = 4
cfg.model.pipeline_model_parallel_size = 4
cfg.model.virtual_pipeline_model_parallel_size = 5  # chunks
cfg.model.context_parallel_size = 2
cfg.model.sequence_parallel = True
cfg.model.recompute_granularity = "selective"
cfg.train.global_batch_size = 8 * 64
cfg.train.micro_batch_size = 1
cfg.dataset.seq_length = 8192
cfg.ddp.use_distributed_optimizer = True
cfg.ddp.new_and_unknown = 3
# cfg.model.tensor_model_parallel_size = 8
)";

TEST(ReadBridge, AssignmentsInPython) {
  const LaunchConfig config = read_megatron_bridge(kPython, "cfg.py", {});
  EXPECT_EQ(config.model_name, "llama-3.1-70b");
  EXPECT_EQ(config.layout.tensor, 4);
  EXPECT_EQ(config.layout.virtual_pipeline, 5);
  EXPECT_EQ(config.global_batch, 512);
  EXPECT_EQ(config.sequence, 8192);
  EXPECT_EQ(config.precision, "bf16");
  EXPECT_EQ(config.layout.recompute, Recompute::kSelective);
  ASSERT_EQ(config.unknown.size(), 1U);
  EXPECT_EQ(config.unknown[0].line, 13);
  const LaunchCase found = make_launch_case(config, {.cluster = "dgx-h100x8"});
  EXPECT_EQ(short_form(found.plan).substr(0, 22), "tp4.pp4.vpp5.cp2.fsdp2");
}

TEST(ReadBridge, OverridesAndShortOptions) {
  const LaunchConfig config = read_megatron_bridge(
      "torchrun --nproc-per-node 8 --nnodes 4 scripts/training/run_recipe.py \\\n"
      "  --recipe qwen3_30b_a3b_pretrain_config model.tensor_model_parallel_size=2 \\\n"
      "  -ep 8 -pp 2 -mb 2 -gb 256 -sl 4096 ddp.use_megatron_fsdp=true \\\n"
      "  ddp.data_parallel_sharding_strategy=optim_grads_params\n",
      "run.sh", {"model.tensor_model_parallel_size=1"});
  EXPECT_EQ(config.model_name, "qwen3-30b-a3b");
  EXPECT_EQ(config.gpus, 32);
  EXPECT_EQ(config.layout.tensor, 1);  // the command line's argument is the last
  EXPECT_EQ(config.layout.expert, 8);
  EXPECT_EQ(config.layout.pipeline, 2);
  EXPECT_EQ(config.layout.micro_batch, 2);
  EXPECT_EQ(config.global_batch, 256);
  EXPECT_EQ(config.framework, "megatron-fsdp");
  EXPECT_EQ(config.layout.sharding, Sharding::kFull);
}

// A batch of 2 on 8 GPUs was an error, and the recipe has cp 8.
TEST(ReadBridge, DegreesOfARecipeAreNotTakenFromElsewhere) {
  const std::string start =
      "python -m torch.distributed.run --nproc_per_node=8 scripts/training/run_recipe.py --recipe "
      "qwen3_600m_sft_128k_config train.global_batch_size=2 train.micro_batch_size=1";
  const LaunchConfig open = read_megatron_bridge(start, "run.sh", {});
  EXPECT_EQ(open.foreign.size(), 1U);
  EXPECT_TRUE(leaves_degrees_to_recipe(open));
  const LaunchConfig told =
      read_megatron_bridge(start, "run.sh", {"model.context_parallel_size=8"});
  EXPECT_FALSE(leaves_degrees_to_recipe(told));
  EXPECT_TRUE(told.foreign.empty());
  EXPECT_EQ(told.layout.context, 8);
}

TEST(ReadBridge, RecipesShardTheOptimizerUnlessTold) {
  const std::string two =
      "from x import llama3_8b_pretrain_config\ncfg.train.micro_batch_size = 1\n";
  const LaunchConfig config = read_megatron_bridge(two, "cfg.py", {});
  EXPECT_EQ(config.layout.sharding, Sharding::kOptimizer);
  const LaunchConfig without =
      read_megatron_bridge(two + "cfg.ddp.use_distributed_optimizer = False\n", "cfg.py", {});
  EXPECT_EQ(without.layout.sharding, Sharding::kNone);
  EXPECT_EQ(read_megatron_bridge(two + "cfg.mixed_precision = None\n", "cfg.py", {}).precision,
            "fp32");
}

TEST(ReadBridge, SectionsMadeByACall) {
  const LaunchConfig config = read_megatron_bridge(
      "cfg.model = GPTModelProvider(\n    num_layers=24, hidden_size=2048,\n    "
      "num_attention_heads=16,\n"
      "    window_size=(127, 0))\ncfg.train = TrainingConfig(global_batch_size=64, "
      "micro_batch_size=2)\n"
      "cfg.comm_overlap = CommOverlapConfig(tp_comm_overlap=True)\ncfg.model.vocab_size = 1000\n"
      "cfg.model.seq_length = 1024\n",
      "cfg.py", {});
  ASSERT_TRUE(config.model);
  EXPECT_EQ(config.model->layers, 24);
  EXPECT_EQ(config.model->heads, 16);
  EXPECT_EQ(config.model->sliding_window, 128);
  EXPECT_EQ(config.global_batch, 64);
  EXPECT_TRUE(is_on(config, "tp_comm_overlap"));
}

TEST(ReadBridge, FewerLayersOfARecipe) {
  const LaunchConfig config =
      read_megatron_bridge(std::string(kPython) + "cfg.model.num_layers = 20\n", "cfg.py", {});
  ASSERT_TRUE(config.model);
  EXPECT_EQ(config.model->layers, 20);
  EXPECT_EQ(config.model->hidden, 8192);
}

TEST(ReadBridge, WrongValuesNameTheirLine) {
  try {
    read_megatron_bridge("cfg = x\ncfg.model.tensor_model_parallel_size = \"many\"\n", "cfg.py",
                         {});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cfg.py:2"), std::string::npos) << error.what();
  }
  EXPECT_THROW(read_megatron_bridge("import os\n", "cfg.py", {}), Error);
}

// A number that the program's own arguments give was an error of the file.
TEST(ReadBridge, WhatTheProgramWorksOutIsLeftOpen) {
  const LaunchConfig config = read_megatron_bridge(
      "cfg = llama3_8b_pretrain_config()\ncfg.train.micro_batch_size = args.micro_batch_size\n"
      "cfg.model.seq_length = seq_length  # of the data\n"
      "cfg.model.tensor_model_parallel_size = 2\ncfg.model.recompute_granularity = \"full\"\n",
      "cfg.py", {});
  EXPECT_EQ(config.layout.tensor, 2);
  EXPECT_FALSE(config.layout.micro_batch);
  EXPECT_FALSE(config.sequence);
  EXPECT_EQ(config.layout.recompute, Recompute::kFull);
}

// NeMo-Speech#8059: recompute and the optimizer under NeMo 1's names were not read.
TEST(ReadBridge, NamesOfNemoOne) {
  const std::string run =
      "torchrun --nproc_per_node=8 megatron_llama_pretraining.py trainer.precision=bf16 "
      "model.num_layers=40 model.hidden_size=5120 model.ffn_hidden_size=13824 "
      "model.num_attention_heads=40 model.micro_batch_size=1 model.global_batch_size=32 "
      "model.tensor_model_parallel_size=4 model.sequence_parallel=True "
      "model.optim.name=distributed_fused_adam model.activations_checkpoint_method=uniform "
      "model.activations_checkpoint_num_layers=1 model.activations_checkpoint_granularity=";
  const LaunchConfig selective = read_megatron_bridge(run + "selective\n", "run.sh", {});
  EXPECT_EQ(selective.layout.recompute, Recompute::kSelective);
  EXPECT_EQ(selective.layout.sharding, Sharding::kOptimizer);
  EXPECT_EQ(read_megatron_bridge(run + "full\n", "run.sh", {}).layout.recompute, Recompute::kFull);
}

TEST(PresetName, WholeNumbersOnly) {
  EXPECT_EQ(models::preset_in("meta-llama/Llama-3.1-70B-Instruct"), "llama-3.1-70b");
  EXPECT_EQ(models::preset_in("llama3_8b_pretrain_config"), "llama-3-8b");
  EXPECT_EQ(models::preset_in("deepseek_v3_pretrain_config_32nodes"), "deepseek-v3");
  EXPECT_EQ(models::preset_in("mixtral_8x7b"), "mixtral-8x7b");
  EXPECT_EQ(models::preset_in("my own model"), "");
  EXPECT_NE(models::preset_in("gpt20b"), "gpt2");
}

}  // namespace
}  // namespace trireme::planner
