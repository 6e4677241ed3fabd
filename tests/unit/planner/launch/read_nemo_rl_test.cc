// NeMo RL's YAML, by both engines, and those that it inherits from.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "core/error.h"
#include "planner/launch/read_launch.h"

namespace trireme::planner {
namespace {

class ReadNemoRl : public testing::Test {
 protected:
  void SetUp() override {
    if (!reads_format(LaunchFormat::kAccelerate)) {
      GTEST_SKIP() << "built without yaml-cpp";
    }
  }
  static LaunchConfig nemo_of(const std::string& text,
                              const std::vector<std::string>& arguments = {},
                              const std::map<std::string, std::string>& files = {}) {
    EXPECT_TRUE(is_nemo_rl(text, "configs/run.yaml")) << text;
    const LaunchReading reading{
        .read = [files](const std::string& name) -> std::optional<std::string> {
          const auto found = files.find(name);
          return found == files.end() ? std::nullopt : std::optional(found->second);
        }};
    return read_nemo_rl(text, "configs/run.yaml", arguments, reading);
  }
};

const std::string kPolicyOfNemo =
    "grpo:\n  num_prompts_per_step: 32\n  num_generations_per_prompt: 16\n"
    "policy:\n  model_name: Qwen/Qwen3-8B\n  train_global_batch_size: 256\n"
    "  train_micro_batch_size: 2\n  max_total_sequence_length: 4096\n"
    "  dtensor_cfg:\n    enabled: true\n    tensor_parallel_size: 2\n    context_parallel_size: 2\n"
    "    sequence_parallel: true\n"
    "  megatron_cfg:\n    enabled: false\n    tensor_model_parallel_size: 4\n"
    "    pipeline_model_parallel_size: 2\n    sequence_parallel: true\n"
    "    num_layers_in_first_pipeline_stage: 17\n    activation_checkpointing: true\n"
    "    optimizer:\n      use_distributed_optimizer: true\n"
    "    distributed_data_parallel_config:\n      grad_reduce_in_fp32: false\n"
    "      overlap_grad_reduce: true\n      use_custom_fsdp: false\n"
    "      data_parallel_sharding_strategy: optim_grads_params\n"
    "  sequence_packing:\n    enabled: false\n"
    "    train_mb_tokens: ${mul:${policy.max_total_sequence_length}, ${..train_micro_batch_size}}\n"
    "cluster:\n  gpus_per_node: 8\n  num_nodes: 2\n";

// It was refused with a hint to write the job by hand.
TEST_F(ReadNemoRl, DTensorIsFsdp2WithItsAxes) {
  const LaunchConfig config = nemo_of(kPolicyOfNemo);
  EXPECT_EQ(config.format, LaunchFormat::kAccelerate);
  EXPECT_EQ(config.framework, "fsdp2");
  EXPECT_EQ(config.model_name, "qwen3-8b");
  EXPECT_EQ(config.gpus, 16);
  EXPECT_EQ(config.layout.tensor, 2);
  EXPECT_EQ(config.layout.context, 2);
  EXPECT_TRUE(config.layout.sequence_parallel);
  EXPECT_EQ(config.layout.micro_batch, 2);
  EXPECT_EQ(config.global_batch, 256);
  EXPECT_EQ(config.sequence, 4096);
}

TEST_F(ReadNemoRl, MegatronIsCoreUnderItsOwnSections) {
  const LaunchConfig config = nemo_of(
      kPolicyOfNemo, {"policy.megatron_cfg.enabled=true", "policy.dtensor_cfg.enabled=false"});
  EXPECT_EQ(config.format, LaunchFormat::kMegatron);
  EXPECT_EQ(config.layout.tensor, 4);
  EXPECT_EQ(config.layout.pipeline, 2);
  EXPECT_EQ(config.layout.first_stage_layers, 17);
  EXPECT_EQ(config.layout.recompute, Recompute::kFull);
  EXPECT_EQ(config.layout.sharding, Sharding::kOptimizer);
}

// ${mul:…} and references from the section outwards.
TEST_F(ReadNemoRl, PacksHoldWhatTheirProductSays) {
  const LaunchConfig config = nemo_of(kPolicyOfNemo, {"policy.sequence_packing.enabled=true"});
  EXPECT_EQ(config.sequence, 2 * 4096);
  EXPECT_EQ(config.layout.micro_batch, 1);
  EXPECT_EQ(config.global_batch, 128);
}

// A switch that names what is not there was an empty value, which is on.
TEST_F(ReadNemoRl, AReferenceToNothingIsNotSaid) {
  const LaunchConfig config =
      nemo_of(kPolicyOfNemo, {"policy.dtensor_cfg.activation_checkpointing=${policy.nowhere}"});
  EXPECT_EQ(config.layout.recompute, Recompute::kNone);
}

TEST_F(ReadNemoRl, AYamlInheritsFromAnother) {
  const std::string own =
      "defaults: ../base.yaml\npolicy:\n  train_micro_batch_size: 1\n"
      "cluster:\n  num_nodes: 1\n";
  const LaunchConfig config = nemo_of(own, {}, {{"../base.yaml", kPolicyOfNemo}});
  EXPECT_EQ(config.layout.micro_batch, 1);
  EXPECT_EQ(config.gpus, 8);
  EXPECT_EQ(config.model_name, "qwen3-8b");
  EXPECT_TRUE(is_nemo_rl("defaults: \"base.yaml\"\ndata:\n  shuffle: true\n", "run.yaml"));
  EXPECT_FALSE(is_nemo_rl("defaults:\n  - ppo_trainer\ndata:\n  shuffle: true\n", "run.yaml"));
  EXPECT_THROW(nemo_of(own), Error);  // names no model without it
  const LaunchConfig named = nemo_of(own + "grpo:\n  x: 1\n", {"policy.model_name=Qwen/Qwen3-8B"});
  EXPECT_FALSE(named.foreign.empty());
  EXPECT_FALSE(named.global_batch);  // was 1, which no two ranks divide: an error of the file's
  // a file that inherits from itself ends
  EXPECT_FALSE(nemo_of("defaults: run.yaml\npolicy:\n  model_name: Qwen/Qwen3-8B\ncluster: {}\n",
                       {}, {{"run.yaml", "defaults: run.yaml\npolicy: {}\ncluster: {}\n"}})
                   .foreign.empty());
}

TEST_F(ReadNemoRl, RolloutsApartTakeTheirGpusAndPairsAreTwo) {
  const LaunchConfig apart =
      nemo_of(kPolicyOfNemo, {"policy.generation.colocated.enabled=false",
                              "policy.generation.colocated.resources.num_nodes=1"});
  EXPECT_EQ(apart.gpus, 8);
  EXPECT_EQ(nemo_of("dpo:\n  x: 1\n" + kPolicyOfNemo).sequences_a_sample, 2);
  EXPECT_FALSE(nemo_of("rm:\n  x: 1\n" + kPolicyOfNemo).foreign.empty());
}

}  // namespace
}  // namespace trireme::planner
