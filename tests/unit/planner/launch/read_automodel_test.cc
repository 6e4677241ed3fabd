// NeMo Automodel's YAML, which was refused: its mesh, types, what recomputes, and the batch.
#include <gtest/gtest.h>

#include <string>

#include "core/error.h"
#include "planner/launch/read_launch.h"
#include "tests/unit/planner/launch/chosen.h"

namespace trireme::planner {
namespace {

class ReadAutomodel : public testing::Test {
 protected:
  void SetUp() override {
    if (!reads_format(LaunchFormat::kAccelerate)) {
      GTEST_SKIP() << "built without yaml-cpp";
    }
  }
  static LaunchConfig automodel_of(const std::string& text,
                                   const std::vector<std::string>& arguments = {}) {
    EXPECT_TRUE(is_automodel(text, "run.yaml")) << text;
    return read_automodel(text, "run.yaml", arguments);
  }
};

const std::string kDenseModel =
    "model:\n  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained\n"
    "  pretrained_model_name_or_path: meta-llama/Llama-3.1-8B\n";
const std::string kBatch =
    "recipe: TrainFinetuneRecipeForNextTokenPrediction\nstep_scheduler:\n"
    "  global_batch_size: 64\n  local_batch_size: 8\n";

TEST_F(ReadAutomodel, DenseModelsAreShardedOverWhatTheAxesLeave) {
  const LaunchConfig config =
      automodel_of(kBatch + kDenseModel +
                   "distributed:\n  strategy: fsdp2\n  dp_size: none\n  tp_size: 2\n  cp_size: 1\n"
                   "  sequence_parallel: false\n  activation_checkpointing: true\n"
                   "packed_sequence:\n  packed_sequence_size: 4096\n"
                   "compile:\n  enabled: false\n");
  EXPECT_EQ(config.framework, "nemo-automodel");
  EXPECT_EQ(config.model_name, "llama-3.1-8b");
  EXPECT_EQ(config.layout.sharding, Sharding::kFull);
  EXPECT_EQ(config.layout.tensor, 2);
  EXPECT_FALSE(config.layout.sequence_parallel);
  EXPECT_TRUE(config.layout.reshard_after_forward);
  EXPECT_EQ(config.layout.micro_batch, 8);
  EXPECT_EQ(config.global_batch, 64);
  EXPECT_EQ(config.sequence, 4096);
  EXPECT_FALSE(config.gpus);
  EXPECT_EQ(config.layout.recompute, Recompute::kFull);
  EXPECT_TRUE(chooses(config, "parameter_dtype=bf16"));
  EXPECT_TRUE(chooses(config, "reduce_dtype=fp32"));
  EXPECT_FALSE(chooses(config, "compile=true"));
}

// Blocks of experts stay gathered (MoEParallelizerConfig), chunks are so many layers.
TEST_F(ReadAutomodel, ExpertsAndStagesHaveTheirOwnAxes) {
  const std::string text =
      kBatch +
      "model:\n  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_config\n  config:\n"
      "    _target_: transformers.AutoConfig.from_pretrained\n"
      "    pretrained_model_name_or_path: Qwen/Qwen3-30B-A3B\n"
      "  backend:\n    attn: te\n    te_fp8:\n      recipe: block\n"
      "distributed:\n  strategy: fsdp2\n  pp_size: 2\n  dp_size: 16\n  ep_size: 8\n"
      "  pipeline:\n    pp_schedule: interleaved1f1b\n    pp_microbatch_size: 2\n"
      "    layers_per_stage: 4\n"
      "dataset:\n  _target_: nemo_automodel.components.datasets.llm.megatron_dataset.Megatron\n"
      "  seq_length: 1024\n";
  const LaunchConfig config = automodel_of(text);
  EXPECT_EQ(config.model_name, "qwen3-30b-a3b");
  EXPECT_EQ(config.precision, "fp8");
  EXPECT_EQ(config.gpus, 32);
  EXPECT_EQ(config.layout.pipeline, 2);
  EXPECT_EQ(config.layout.expert, 8);
  EXPECT_EQ(config.layout.expert_tensor, 1);
  EXPECT_FALSE(config.layout.reshard_after_forward);
  EXPECT_EQ(config.layout.schedule, Schedule::kInterleaved);
  EXPECT_EQ(config.layout.layers_per_virtual_stage, 4);
  EXPECT_EQ(config.layout.micro_batch, 2);
  EXPECT_EQ(config.sequence, 1024);
  EXPECT_EQ(automodel_of(text, {"distributed.ep_size=16"}).layout.expert, 16);
}

TEST_F(ReadAutomodel, AdaptersLieBesideWeightsInFourBits) {
  const LaunchConfig config =
      automodel_of(kBatch + kDenseModel + "distributed:\n  strategy: fsdp2\n" +
                   "peft:\n  _target_: nemo_automodel.components._peft.lora.PeftConfig\n"
                   "  target_modules: '*_proj'\n  dim: 16\nquantization:\n  load_in_4bit: True\n"
                   "  bnb_4bit_use_double_quant: True\n");
  EXPECT_EQ(config.training.rank, 16);
  EXPECT_EQ(config.training.base, BaseFormat::kNf4Double);
  EXPECT_FALSE(config.sequence);  // samples are as long as they are
}

TEST_F(ReadAutomodel, OtherStrategiesAndNumbersThatAreNoneAreRefused) {
  for (const char* strategy : {"megatron_fsdp", "ddp"}) {
    EXPECT_THROW(
        automodel_of(kBatch + kDenseModel + "distributed:\n  strategy: " + strategy + "\n"), Error);
  }
  EXPECT_THROW(automodel_of(kBatch + kDenseModel + "distributed:\n  tp_size: two\n"), Error);
}

// A recipe of images and a file that only names the package are not read as a language model's.
TEST_F(ReadAutomodel, OnlyLanguageModelsAreTold) {
  EXPECT_FALSE(is_automodel("name: nemo_automodel\n", "codecov.yaml"));
  EXPECT_FALSE(is_automodel(kBatch + kDenseModel, "run.sh"));
}

}  // namespace
}  // namespace trireme::planner
