// What check advises is in the words of the program that the file starts: fixes for verl, OpenRLHF,
// ms-swift and LLaMA-Factory named Megatron-LM's flags and accelerate's keys.
#include <gtest/gtest.h>

#include <string>

#include "planner/launch/read_launch.h"
#include "planner/start/launch_rules.h"
#include "planner/start/trainer_rules.h"

namespace trireme::planner {
namespace {

std::string fixes_of(const LaunchConfig& config) {
  std::string all;
  const RuleReport report =
      check_launch(config, make_launch_case(config, {.cluster = "dgx-h100x1"}));
  for (const LaunchViolation& violation : report.violations) {
    all += violation.fix + "\n";
  }
  return all;
}

bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

const std::string kActor =
    "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen3-8B "
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 trainer.n_gpus_per_node=8 "
    "algorithm.adv_estimator=grpo ";

TEST(TrainerWords, VerlsEnginesHaveTheirOwn) {
  const LaunchConfig fsdp =
      read_verl(kActor + "actor_rollout_ref.actor.ppo_mini_batch_size=60", "run.sh", {}, {});
  const std::string batch = fixes_of(fsdp);
  EXPECT_TRUE(has(batch, "actor_rollout_ref.actor.ppo_mini_batch_size x rollout.n = 48")) << batch;
  EXPECT_FALSE(has(batch, "--global-batch")) << batch;
  const LaunchConfig megatron =
      read_verl(kActor +
                    "actor_rollout_ref.actor.strategy=megatron "
                    "actor_rollout_ref.actor.ppo_mini_batch_size=64 "
                    "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=3",
                "run.sh", {}, {});
  const std::string degrees = fixes_of(megatron);
  EXPECT_TRUE(has(degrees, "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=1, 2 or 4"))
      << degrees;
  EXPECT_FALSE(has(degrees, "--")) << degrees;
  EXPECT_EQ(in_own_words(megatron, "--tp-comm-overlap"),
            "++actor_rollout_ref.actor.megatron.override_transformer_config.tp_comm_overlap=True");
  EXPECT_EQ(in_own_words(megatron, "--overlap-grad-reduce"),
            "++actor_rollout_ref.actor.megatron.override_ddp_config.overlap_grad_reduce=True");
  EXPECT_EQ(in_own_words(megatron, "start one of them (srun --ntasks-per-node=1)"),
            "start one of them (srun --ntasks-per-node=1)");
  // accelerate's tensor parallelism is none of verl's FSDP
  EXPECT_EQ(in_own_words(
                fsdp, "use parallelism_config_tp_size: 2, or parallelism_config_cp_size: 2 or 4"),
            "use actor_rollout_ref.actor.ulysses_sequence_parallel_size=2 or 4");
}

TEST(TrainerWords, OpenRlhfsFlagsAreThoseOfTheirYear) {
  const auto config = [](const std::string& flags) {
    return read_openrlhf("deepspeed --num_gpus 8 --module openrlhf.cli.train_sft " + flags,
                         "run.sh", {}, {});
  };
  const std::string older = fixes_of(
      config("--pretrain Qwen/Qwen3-8B --train_batch_size 60 --micro_train_batch_size 2 --bf16"));
  EXPECT_TRUE(has(older, "--train_batch_size 48")) << older;
  const std::string newer = fixes_of(config(
      "--model.model_name_or_path Qwen/Qwen3-8B --train.batch_size 60 --train.micro_batch_size 2"));
  EXPECT_TRUE(has(newer, "--train.batch_size 48")) << newer;
}

TEST(TrainerWords, SwiftsMegatronHasUnderscores) {
  const LaunchConfig config = read_megatron(
      "NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --tensor_model_parallel_size 3 "
      "--micro_batch_size 1 --global_batch_size 16 --max_length 4096",
      "run.sh", {});
  const std::string fixes = fixes_of(config);
  EXPECT_TRUE(has(fixes, "--tensor_model_parallel_size 1, 2 or 4")) << fixes;
  EXPECT_FALSE(has(fixes, "--tensor-model-parallel-size")) << fixes;
}

TEST(TrainerWords, OfNoTrainerNothingChanges) {
  const LaunchConfig config =
      read_megatron("torchrun pretrain_gpt.py --num-layers 2", "run.sh", {});
  EXPECT_EQ(in_own_words(config, "use --micro-batch-size 2, or --tp 1"),
            "use --micro-batch-size 2, or --tp 1");
}

}  // namespace
}  // namespace trireme::planner
