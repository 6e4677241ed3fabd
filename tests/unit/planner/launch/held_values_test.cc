// Values that a trainer or torchtitan stops on: one line with the key, and what would be right.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "planner/launch/read_launch.h"

namespace trireme::planner {
namespace {

template <typename Read>
std::string refusal_of(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

struct Refused {
  std::string text, words;
};

// TOML has types, and torchtitan takes them as they stand: a degree as a text, a list or 4.0 passed
// with 0 rules broken, and so did an empty batch.
TEST(HeldValues, TorchtitanTakesNumbersAsTheyStand) {
  if (!reads_format(LaunchFormat::kTorchtitan)) {
    GTEST_SKIP() << "built without toml++";
  }
  for (const auto& [text, words] : std::vector<Refused>{
           {"tensor_parallel_degree = \"4\"",
            "t.toml:5: parallelism.tensor_parallel_degree is a text"},
           {"tensor_parallel_degree = [4]",
            "is a list (4); a number such as tensor_parallel_degree"},
           {"pipeline_parallel_degree = 4.0", "is no whole number (4.0)"},
           {"context_parallel_degree = true", "is no whole number (true)"},
           {"[parallelism.expert_parallel_degree]\na = 1", "expert_parallel_degree is a table"},
           {"[training]\nglobal_batch_size = 0", "global_batch_size is '0'; -1"}}) {
    const std::string said = refusal_of([&, value = text] {
      const bool training = value.starts_with("[training]");
      read_torchtitan(std::string("[model]\nname = \"llama3\"\nflavor = \"8B\"\n") +
                          (training ? "" : "[parallelism]\n") + value + "\n",
                      "t.toml", {});
    });
    EXPECT_NE(said.find(words), std::string::npos) << text << ": " << said;
  }
  // any number below zero is the local batch of each rank
  EXPECT_FALSE(read_torchtitan("[training]\nglobal_batch_size = -2\n", "t.toml", {}).global_batch);
}

// argparse stops on each; they were passed over, and the defaults were judged.
TEST(HeldValues, OpenRlhfStopsOnWrongFlags) {
  for (const auto& [text, words] : std::vector<Refused>{
           {"--param_dtype fp64", "--param_dtype is 'fp64'; bf16 or fp16"},
           {"--zero_stage", "--zero_stage has no value"},
           {"--zero_stage --bf16", "run.sh:1: --zero_stage has no value"},
           {"--zero_stage 3 --zpg 1e9", "--zpg is '1e9'; a whole number"},
           {"--zro_stage 3", "--zro_stage is no flag of OpenRLHF; --zero_stage"}}) {
    const std::string said = refusal_of([&, flags = text] {
      read_openrlhf(
          "deepspeed --num_gpus 8 --module openrlhf.cli.train_sft --train_batch_size 64 "
          "--pretrain Qwen/Qwen3-8B " +
              flags,
          "run.sh", {}, {});
    });
    EXPECT_NE(said.find(words), std::string::npos) << text << ": " << said;
  }
  EXPECT_EQ(refusal_of([] {
              read_openrlhf(
                  "deepspeed --num_gpus 8 --module openrlhf.cli.train_sft --local_rank 0 "
                  "--train_batch_size 64 --pretrain Qwen/Qwen3-8B --zero_stage $STAGE",
                  "run.sh", {}, {});
            }),
            "");
}

const std::string kHeldActor =
    "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen3-8B "
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 trainer.n_gpus_per_node=8 ";

// A map or a list where one value belongs counted as not said.
TEST(HeldValues, VerlTakesOneValueForAKey) {
  for (const auto& [text, words] : std::vector<Refused>{
           {"actor_rollout_ref.actor.strategy={a:1}", "strategy is a map, with a in it"},
           {"actor_rollout_ref.actor.ppo_mini_batch_size.x=3", "ppo_mini_batch_size is a map"},
           {"actor_rollout_ref.model.use_remove_padding=maybe",
            "use_remove_padding is 'maybe'; true"},
           {"actor_rollout_ref.actor.fsdp_config.fsdp_size=[4]", "fsdp_size is '[4]'; a whole"},
           {"actor_rollout_ref.actor.ppo_mini_batch_size=", "ppo_mini_batch_size has no value"},
           {"actor_rollout_ref.model.path",
            "run.sh:1: actor_rollout_ref.model.path has no value"}}) {
    const std::string said =
        refusal_of([&, more = text] { read_verl(kHeldActor + more, "run.sh", {}, {}); });
    EXPECT_NE(said.find(words), std::string::npos) << text << ": " << said;
  }
  EXPECT_NE(refusal_of([] {
              read_verl(
                  "torchrun -m verl.trainer.fsdp_sft_trainer model.partial_pretrain= "
                  "data.train_batch_size=64",
                  "run.sh", {}, {});
            }).find("model.partial_pretrain has no value"),
            std::string::npos);
  if (reads_format(LaunchFormat::kAccelerate)) {
    EXPECT_NE(refusal_of([] {
                read_verl("actor_rollout_ref:\n  actor:\n    ppo_micro_batch_size_per_gpu: [2]\n",
                          "run.yaml", {}, {});
              }).find("run.yaml:3: actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu is '[2]'"),
              std::string::npos);
  }
}

// Hydra's KEY={a:1,b:2} is what stands in it; it was passed over.
TEST(HeldValues, VerlReadsAMapOfSettings) {
  const LaunchConfig config = read_verl(
      kHeldActor + "'actor_rollout_ref.actor.fsdp_config={fsdp_size: 4, offload_policy: False}'",
      "run.sh", {}, {});
  EXPECT_EQ(config.layout.sharded, 4);
}

// A map where DeepSpeed or accelerate takes one value counted as not said, and buffers of fewer
// than no elements as usual.
TEST(HeldValues, AMapIsNoValueAndABufferNoLessThanEmpty) {
  const auto deepspeed = [](const std::string& settings) {
    return refusal_of([&] { read_deepspeed("{" + settings + "}", "ds.json", {}); });
  };
  EXPECT_NE(deepspeed("\"train_batch_size\": {\"a\": 1}").find("train_batch_size holds keys (a)"),
            std::string::npos);
  EXPECT_NE(deepspeed("\"zero_optimization\": {\"stage\": {\"x\": 3}}")
                .find("zero_optimization.stage holds keys (x)"),
            std::string::npos);
  EXPECT_NE(deepspeed("\"zero_optimization\": {\"stage\": 3, \"sub_group_size\": -1}")
                .find("sub_group_size is '-1'; a whole number from 1"),
            std::string::npos);
  EXPECT_EQ(deepspeed("\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 1e-5}}, "
                      "\"zero_optimization\": {\"stage\": 3, \"sub_group_size\": 1e9}"),
            "");
  if (reads_format(LaunchFormat::kAccelerate)) {
    EXPECT_NE(refusal_of([] {
                read_accelerate("distributed_type: FSDP\nnum_processes:\n  a: 8\n", "a.yaml", {});
              }).find("a.yaml:3: num_processes holds keys (a)"),
              std::string::npos);
  }
}

// int("None") of argparse; it was no value, and the default was judged.
TEST(HeldValues, NoneIsNoNumberOfAFlag) {
  const std::string gpt =
      "torchrun pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
      "--seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --vocab-size 128000 ";
  EXPECT_NE(refusal_of([&] {
              read_megatron(gpt + "--tensor-model-parallel-size None", "run.sh", {});
            }).find("--tensor-model-parallel-size is 'None'; a whole number"),
            std::string::npos);
  EXPECT_EQ(refusal_of([] {
              read_megatron_bridge("cfg.model.tensor_model_parallel_size = None\n", "run.py", {});
            }),
            "");
}

// "none of the formats": the program says whose it is.
TEST(HeldValues, VerlWithoutSettingsIsNamed) {
  const std::string bare = "python3 -m verl.trainer.main_ppo\n";
  ASSERT_TRUE(is_verl(bare, "run.sh"));
  EXPECT_NE(refusal_of([&] { read_verl(bare, "run.sh", {}, {}); }).find("verl's settings"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme::planner
