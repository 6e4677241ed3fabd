// verl: the actor of reinforcement learning and the SFT trainer, by overrides and by YAML.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/error.h"
#include "planner/launch/read_launch.h"

namespace trireme::planner {
namespace {

LaunchConfig verl_of(const std::string& text, const std::vector<std::string>& arguments = {},
                     const std::string& source = "run.sh") {
  EXPECT_TRUE(is_verl(text, source));
  return read_verl(text, source, arguments, {});
}

const std::string kStart = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo ";
const std::string kVerlActor = kStart +
                               "actor_rollout_ref.model.path=/models/Qwen3-8B "
                               "actor_rollout_ref.actor.ppo_mini_batch_size=128 "
                               "actor_rollout_ref.rollout.n=8 data.train_batch_size=512 "
                               "data.max_prompt_length=1024 data.max_response_length=3072 "
                               "trainer.nnodes=2 trainer.n_gpus_per_node=8 ";
const std::string kSamples = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 ";

bool has_choice(const LaunchConfig& config, const std::string& choice) {
  return std::count(config.choices.begin(), config.choices.end(), choice) > 0;
}

bool says(const LaunchConfig& config, const std::string& words) {
  return std::any_of(config.remarks.begin(), config.remarks.end(), [&](const std::string& remark) {
    return remark.find(words) != std::string::npos;
  });
}

// It was refused with a hint to write the job by hand.
TEST(ReadVerl, TheActorIsThatOfFsdp) {
  const LaunchConfig config = verl_of(kVerlActor + kSamples);
  EXPECT_EQ(config.format, LaunchFormat::kAccelerate);
  EXPECT_EQ(config.framework, "fsdp1");
  EXPECT_EQ(config.model_name, "qwen3-8b");
  EXPECT_EQ(config.gpus, 16);
  EXPECT_EQ(config.sequence, 4096);
  EXPECT_EQ(config.global_batch, 128 * 8);  // answers, not prompts
  EXPECT_EQ(config.layout.micro_batch, 4);
  EXPECT_EQ(config.layout.sharding, Sharding::kFull);
  EXPECT_EQ(config.layout.recompute, Recompute::kFull);  // its model's default
  EXPECT_TRUE(has_choice(config, "reduce_dtype=fp32"));
  EXPECT_TRUE(has_choice(config, "cross_entropy_fusion=true"));
  EXPECT_TRUE(says(config, "of which a rollout makes 4"));
  EXPECT_TRUE(config.beside.empty());
}

TEST(ReadVerl, AllSamplesOfAMicroBatchAreDividedAmongTheRanks) {
  EXPECT_EQ(
      verl_of(kVerlActor + "actor_rollout_ref.actor.ppo_micro_batch_size=64 ").layout.micro_batch,
      4);
}

// All but "float16" were taken for bf16.
TEST(ReadVerl, TypesHaveVerlsNames) {
  const std::string type = "actor_rollout_ref.actor.fsdp_config.dtype=";
  EXPECT_EQ(verl_of(kVerlActor + kSamples + type + "float16").precision, "fp16");
  EXPECT_EQ(verl_of(kVerlActor + kSamples + type + "fp16").precision, "fp16");
  EXPECT_EQ(verl_of(kVerlActor + kSamples + type + "float32").precision, "fp32");
  EXPECT_EQ(verl_of(kVerlActor + kSamples + type + "bfloat16").precision, "bf16");
}

// Ranks of Ulysses share the states and the pack.
TEST(ReadVerl, UlyssesSharesPacksAndStates) {
  const LaunchConfig config =
      verl_of(kVerlActor +
              "actor_rollout_ref.actor.strategy=fsdp2 actor_rollout_ref.actor.use_dynamic_bsz=True "
              "actor_rollout_ref.actor.ulysses_sequence_parallel_size=2 "
              "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=8192 ");
  EXPECT_EQ(config.framework, "fsdp2");
  EXPECT_EQ(config.layout.context, 2);
  EXPECT_EQ(config.sequence, 2 * 8192);
  EXPECT_EQ(config.layout.micro_batch, 1);
  EXPECT_EQ(config.global_batch, 1024 * 4096 / (2 * 8192));
  EXPECT_TRUE(has_choice(config, "context_all_to_all=true"));
  EXPECT_TRUE(has_choice(config, "shard_over_context=true"));
  ASSERT_EQ(config.training.lengths.size(), 1U);  // attention is within a sample
  EXPECT_EQ(config.training.lengths.front().tokens, 4096);
  EXPECT_EQ(config.training.batching, Batching::kPacked);
  // no "does not fit" rests on packs that rollouts may leave half empty
  EXPECT_EQ(config.unmodelled.size(), 1U);
}

TEST(ReadVerl, GroupsOfRanksShard) {
  const std::string group = "actor_rollout_ref.actor.fsdp_config.fsdp_size=";
  const LaunchConfig config = verl_of(kVerlActor + kSamples + group + "8 ");
  EXPECT_EQ(config.layout.sharded, 8);
  EXPECT_FALSE(config.layout.replicas.has_value());
  // ranks of Ulysses are among them, and more than there are is all
  EXPECT_EQ(verl_of(kVerlActor + kSamples + group +
                    "8 actor_rollout_ref.actor.ulysses_sequence_parallel_size=2")
                .layout.sharded,
            4);
  EXPECT_EQ(verl_of(kVerlActor + kSamples + group + "32").layout.replicas, 1);
}

// What verl moves between phases is no offloading of the training step; FSDP2's policy is.
TEST(ReadVerl, WhatMovesBetweenPhasesIsBackWhenTheActorTrains) {
  const LaunchConfig moved =
      verl_of(kVerlActor + kSamples + "actor_rollout_ref.actor.fsdp_config.param_offload=True ");
  EXPECT_TRUE(moved.offload.empty());
  EXPECT_TRUE(says(moved, "is back on the GPU while the actor trains"));
  const LaunchConfig policy =
      verl_of(kVerlActor + kSamples + "actor_rollout_ref.actor.fsdp_config.offload_policy=True ");
  EXPECT_EQ(policy.offload, std::vector<std::string>{"parameters"});
}

TEST(ReadVerl, WhatLiesBesideTheActorIsNamed) {
  EXPECT_EQ(verl_of(kVerlActor + kSamples + "algorithm.adv_estimator=gae").beside,
            std::vector<std::string>{"the critic"});
  EXPECT_TRUE(verl_of(kVerlActor + kSamples +
                      "algorithm.adv_estimator=gae critic.model.fsdp_config.param_offload=True "
                      "critic.model.fsdp_config.optimizer_offload=True")
                  .beside.empty());
  // a list in check's verdict joins these with commas
  EXPECT_EQ(
      verl_of(kVerlActor + kSamples + "actor_rollout_ref.rollout.free_cache_engine=False").beside,
      std::vector<std::string>{"the rollout engine (free_cache_engine=False keeps its memory)"});
}

TEST(ReadVerl, AdaptersHaveABaseInThirtyTwoBits) {
  const LaunchConfig config = verl_of(
      kVerlActor + kSamples +
      "actor_rollout_ref.model.lora_rank=32 actor_rollout_ref.model.target_modules=all-linear");
  EXPECT_EQ(config.training.rank, 32);
  EXPECT_EQ(config.training.base, BaseFormat::kFp32);
}

const std::string kMegatron = kVerlActor + kSamples +
                              "--config-name=ppo_megatron_trainer.yaml "
                              "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4 "
                              "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=2 ";

TEST(ReadVerl, TheActorIsThatOfMegatron) {
  const LaunchConfig config = verl_of(
      kMegatron +
      "+actor_rollout_ref.actor.megatron.override_transformer_config.recompute_granularity=full "
      "+actor_rollout_ref.actor.megatron.override_transformer_config.recompute_method=uniform "
      "+actor_rollout_ref.actor.megatron.override_transformer_config.recompute_num_layers=1 "
      "+actor_rollout_ref.actor.megatron.override_transformer_config."
      "num_layers_in_last_pipeline_stage=17 "
      "+actor_rollout_ref.actor.optim.override_optimizer_config.optimizer_cpu_offload=True "
      "+actor_rollout_ref.actor.optim.override_optimizer_config.optimizer_offload_fraction=0.5");
  EXPECT_EQ(config.format, LaunchFormat::kMegatron);
  EXPECT_EQ(config.layout.tensor, 4);
  EXPECT_EQ(config.layout.pipeline, 2);
  EXPECT_TRUE(config.layout.sequence_parallel);
  EXPECT_EQ(config.layout.sharding, Sharding::kOptimizer);
  EXPECT_EQ(config.layout.recompute, Recompute::kFull);
  EXPECT_EQ(config.layout.last_stage_layers, 17);
  EXPECT_EQ(config.precision, "bf16");
  EXPECT_EQ(config.offload, std::vector<std::string>{"optimizer=0.5"});
  EXPECT_TRUE(has_choice(config, "dropout=0"));
  EXPECT_TRUE(has_choice(config, "overlap_grad_reduce=false"));
}

// Megatron's reference model stays on the GPU unless told; FSDP's lies on the host.
TEST(ReadVerl, AReferenceModelOfMegatronLiesBesideTheActor) {
  const std::string judged = "actor_rollout_ref.actor.use_kl_loss=True ";
  EXPECT_EQ(verl_of(kMegatron + judged).beside, std::vector<std::string>{"the reference model"});
  EXPECT_TRUE(verl_of(kMegatron + judged + "actor_rollout_ref.ref.megatron.param_offload=True")
                  .beside.empty());
  EXPECT_TRUE(verl_of(kVerlActor + kSamples + judged).beside.empty());
}

// Interleaved stages take groups of pp micro-batches.
TEST(ReadVerl, PacksOfInterleavedStagesComeInGroups) {
  const LaunchConfig config =
      verl_of(kMegatron +
              "actor_rollout_ref.actor.megatron.virtual_pipeline_model_parallel_size=2 "
              "actor_rollout_ref.actor.use_dynamic_bsz=True "
              "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=6000");
  const std::int64_t each = *config.global_batch / 2;  // two data-parallel ranks
  EXPECT_GE(each * 6000, 512 * 4096);
  EXPECT_EQ(each % 2, 0);
}

TEST(ReadVerl, ABackEndThatIsNotReadIsRefused) {
  EXPECT_THROW(verl_of(kVerlActor + kSamples + "model_engine=veomni"), Error);
  EXPECT_THROW(verl_of("python3 -m verl.trainer.main_generation_server "
                       "actor_rollout_ref.model.path=/models/Qwen3-8B"),
               Error);
}

TEST(ReadVerl, ABatchThatNobodySaysIsRefused) {
  EXPECT_THROW(verl_of(kVerlActor), Error);
}

// What a configuration beside the script leaves to others was an error: "${data.train_batch_size}"
// is no number.
TEST(ReadVerl, AConfigurationBesideTheScriptRefersToItsOwnKeys) {
  const LaunchReading reading{.read = [](const std::string& name) {
    EXPECT_EQ(name, "config/my_trainer.yaml");
    return std::optional<std::string>(
        "actor_rollout_ref:\n  model:\n    path: ???\n  actor:\n"
        "    ppo_mini_batch_size: ${data.train_batch_size}\n"
        "    ppo_micro_batch_size_per_gpu: ${oc.select:actor_rollout_ref.micro,4}\n"
        "data:\n  train_batch_size: 64\n");
  }};
  const std::string start = "python3 -m verl.trainer.main_ppo --config-name my_trainer ";
  const std::string model = "actor_rollout_ref.model.path=Qwen/Qwen3-8B ";
  const LaunchConfig config = read_verl(start + model + kSamples, "run.sh", {}, reading);
  EXPECT_EQ(config.model_name, "qwen3-8b");
  EXPECT_EQ(config.global_batch, 64);
  EXPECT_EQ(config.layout.micro_batch, 4);
  // an override moves what refers to it
  const std::string batch = "data.train_batch_size=32 ";
  EXPECT_EQ(read_verl(start + model + kSamples + batch, "run.sh", {}, reading).global_batch, 32);
}

// They were one host, whatever the cluster.
TEST(ReadVerl, HostsThatAVariableLeavesOpenAreThoseOfTheCluster) {
  const std::string start = kStart + kSamples +
                            "actor_rollout_ref.model.path=/models/Qwen3-8B "
                            "trainer.n_gpus_per_node=8 trainer.nnodes=$NNODES";
  EXPECT_FALSE(verl_of(start).gpus.has_value());
  EXPECT_EQ(verl_of("NNODES=4\n" + start).gpus, 32);
  EXPECT_EQ(verl_of(start, {"trainer.nnodes=2"}).gpus, 16);
}

// Its own configuration may set anything.
TEST(ReadVerl, AConfigurationThatIsNotThereLeavesTheVerdictOpen) {
  EXPECT_EQ(verl_of(kVerlActor + kSamples + "--config-name=my_trainer").foreign.size(), 1U);
  EXPECT_TRUE(verl_of(kVerlActor + kSamples + "--config-name=ppo_trainer").foreign.empty());
}

TEST(ReadVerl, ItsYamlIsReadAsItsOverridesAre) {
  const std::string yaml =
      "actor_rollout_ref:\n  model:\n    path: Qwen/Qwen3-8B\n  actor:\n"
      "    ppo_mini_batch_size: 64\n    ppo_micro_batch_size_per_gpu: 2\n    fsdp_config:\n"
      "      fsdp_size: -1\n  rollout:\n    n: 4\ndata:\n  max_prompt_length: 1024\n"
      "  max_response_length: 1024\n  val_batch_size: ${data.train_batch_size}\n"
      "algorithm:\n  adv_estimator: grpo\n";
  const LaunchConfig config =
      verl_of(yaml, {"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8"}, "config.yaml");
  EXPECT_EQ(config.global_batch, 256);
  EXPECT_EQ(config.layout.micro_batch, 8);
  EXPECT_EQ(config.sequence, 2048);
}

const std::string kSft =
    "torchrun --nnodes=1 --nproc_per_node=8 -m verl.trainer.sft_trainer model.path=Qwen/Qwen3-8B "
    "data.train_batch_size=64 data.max_length=4096 ";

TEST(ReadVerl, TheSftTrainerPacksUnlessTold) {
  const LaunchConfig packs =
      verl_of(kSft + "data.max_token_len_per_gpu=16384 engine.strategy=fsdp2");
  EXPECT_EQ(packs.framework, "fsdp2");
  EXPECT_EQ(packs.gpus, 8);
  EXPECT_EQ(packs.sequence, 16384);
  EXPECT_EQ(packs.global_batch, 16);
  const LaunchConfig samples =
      verl_of(kSft +
              "data.use_dynamic_bsz=False data.micro_batch_size_per_gpu=2 engine=megatron "
              "engine.tensor_model_parallel_size=2");
  EXPECT_EQ(samples.layout.tensor, 2);
  EXPECT_EQ(samples.layout.micro_batch, 2);
  EXPECT_EQ(samples.global_batch, 64);
  // that of 2025
  const LaunchConfig older = verl_of(
      "torchrun --nproc_per_node=8 -m verl.trainer.fsdp_sft_trainer "
      "model.partial_pretrain=Qwen/Qwen3-8B data.train_batch_size=64 "
      "data.micro_batch_size_per_gpu=4 ulysses_sequence_parallel_size=2");
  EXPECT_EQ(older.layout.context, 2);
  EXPECT_EQ(older.sequence, 1024);
  EXPECT_FALSE(has_choice(older, "cross_entropy_fusion=true"));
}

// EasyR1, which was refused with a hint: its own names and defaults, and the file that its commands
// name.
TEST(ReadVerl, EasyR1IsReadUnderItsOwnNames) {
  const std::string start =
      "python3 -m verl.trainer.main worker.actor.model.model_path=Qwen/Qwen3-8B ";
  ASSERT_TRUE(is_verl(start, "run.sh"));
  const LaunchConfig bare = verl_of(start);
  EXPECT_EQ(bare.model_name, "qwen3-8b");
  EXPECT_EQ(bare.framework, "fsdp1");
  EXPECT_EQ(bare.gpus, 8);
  EXPECT_EQ(bare.sequence, 4 * 1024);  // a pack of four full samples
  EXPECT_EQ(bare.layout.recompute, Recompute::kFull);
  const LaunchConfig said = verl_of(
      start +
      "worker.actor.global_batch_size=32 worker.rollout.n=4 worker.actor.dynamic_batching=false "
      "worker.actor.micro_batch_size_per_device_for_update=2 worker.actor.ulysses_size=2 "
      "worker.actor.fsdp.torch_dtype=bf16 worker.actor.optim.strategy=adamw_bf16 "
      "worker.actor.model.enable_gradient_checkpointing=false trainer.n_gpus_per_node=4 "
      "data.max_response_length=1536");
  EXPECT_EQ(said.global_batch, 128);
  EXPECT_EQ(said.layout.micro_batch, 2);
  EXPECT_EQ(said.layout.context, 2);
  EXPECT_EQ(said.sequence, 2048);
  EXPECT_EQ(said.gpus, 4);
  EXPECT_EQ(said.layout.recompute, Recompute::kNone);
  EXPECT_TRUE(has_choice(said, "parameter_dtype=bf16"));
  EXPECT_TRUE(has_choice(said, "optimizer_dtype=bf16"));
  // the example's file holds what its commands leave out
  const LaunchConfig example = verl_of(start + "config=examples/config.yaml");
  EXPECT_EQ(example.global_batch, 128 * 5);
  EXPECT_EQ(example.sequence, 4096);
  EXPECT_FALSE(verl_of(start + "config=own.yaml").foreign.empty());
}

// SkyRL, which was refused with a hint: its own names and defaults. Its FSDP of 2026 is PyTorch's
// second under either name.
TEST(ReadVerl, SkyRlIsReadUnderItsOwnNames) {
  const std::string start =
      "uv run --isolated --extra fsdp -m skyrl.train.entrypoints.main_base "
      "trainer.policy.model.path=Qwen/Qwen3-8B ";
  const LaunchConfig bare = verl_of(start);
  EXPECT_EQ(bare.model_name, "qwen3-8b");
  EXPECT_EQ(bare.framework, "fsdp2");
  EXPECT_EQ(bare.gpus, 4);
  EXPECT_EQ(bare.sequence, 512 + 1024);
  EXPECT_EQ(bare.global_batch, 256 * 5);
  EXPECT_EQ(bare.layout.micro_batch, 1);
  EXPECT_EQ(bare.layout.recompute, Recompute::kFull);
  EXPECT_TRUE(bare.beside.empty());  // GRPO has no critic
  const LaunchConfig said = verl_of(
      start +
      "trainer.strategy=fsdp trainer.placement.policy_num_nodes=2 "
      "trainer.placement.policy_num_gpus_per_node=8 trainer.policy.sequence_parallel_size=4 "
      "trainer.policy_mini_batch_size=32 generator.n_samples_per_prompt=16 "
      "trainer.micro_train_batch_size_per_gpu=2 trainer.max_prompt_length=2048 "
      "generator.sampling_params.max_generate_length=20480 trainer.gradient_checkpointing=false "
      "trainer.policy.fsdp_config.cpu_offload=true");
  EXPECT_EQ(said.framework, "fsdp2");
  EXPECT_EQ(said.gpus, 16);
  EXPECT_EQ(said.layout.context, 4);
  EXPECT_EQ(said.sequence, 22528);
  EXPECT_EQ(said.global_batch, 512);
  EXPECT_EQ(said.layout.micro_batch, 2);
  EXPECT_EQ(said.layout.recompute, Recompute::kNone);
  EXPECT_EQ(said.offload, std::vector<std::string>{"parameters"});
  const std::string older =
      "python -m skyrl_train.entrypoints.main_base trainer.strategy=fsdp "
      "trainer.policy.model.path=Qwen/Qwen3-8B";
  EXPECT_EQ(verl_of(older).framework, "fsdp1");
}

TEST(ReadVerl, SkyRlsMegatronRecomputesUnlessTold) {
  const std::string start =
      "uv run -m skyrl.train.entrypoints.main_base trainer.policy.model.path=Qwen/Qwen3-30B-A3B "
      "trainer.strategy=megatron trainer.placement.policy_num_gpus_per_node=8 "
      "trainer.policy.megatron_config.tensor_model_parallel_size=2 "
      "trainer.policy.megatron_config.expert_model_parallel_size=8 "
      "trainer.policy.megatron_config.expert_tensor_parallel_size=1 ";
  const LaunchConfig bare = verl_of(start);
  EXPECT_EQ(bare.format, LaunchFormat::kMegatron);
  EXPECT_EQ(bare.layout.tensor, 2);
  EXPECT_EQ(bare.layout.expert, 8);
  EXPECT_EQ(bare.layout.recompute, Recompute::kFull);
  EXPECT_TRUE(bare.beside.empty());  // its reference model waits on the host
  EXPECT_EQ(verl_of(start + "trainer.policy.megatron_config.optimizer_config_kwargs."
                            "optimizer_cpu_offload=true "
                            "trainer.policy.megatron_config.optimizer_config_kwargs."
                            "optimizer_offload_fraction=1.0")
                .offload.size(),
            1U);
}

// An engine that nobody reads was told to be verl's.
TEST(ReadVerl, SkyRlsOtherEngineIsItsOwn) {
  try {
    verl_of(
        "python -m skyrl.train.entrypoints.main_base trainer.policy.model.path=Qwen/Qwen3-8B "
        "trainer.strategy=jax");
    FAIL() << "read";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("SkyRL's jax engine"), std::string::npos)
        << error.what();
  }
}

// Products of numbers that no run has wrapped around.
TEST(ReadVerl, NumbersThatOverflowAreRefused) {
  EXPECT_THROW(verl_of(kVerlActor + "actor_rollout_ref.actor.use_dynamic_bsz=True "
                                    "actor_rollout_ref.actor.ppo_mini_batch_size=1000000000 "
                                    "actor_rollout_ref.rollout.n=1000000000"),
               Error);
  EXPECT_THROW(verl_of(kVerlActor + kSamples + "trainer.nnodes=0"), Error);
  // ranks beyond those that are refused later, each with as many packs as a sample has tokens
  EXPECT_GT(*verl_of(kVerlActor + "trainer.nnodes=1000000000 trainer.n_gpus_per_node=1000000000 "
                                  "data.max_prompt_length=1000000000 "
                                  "actor_rollout_ref.actor.use_dynamic_bsz=True "
                                  "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=1")
                 .global_batch,
            0);
}

}  // namespace
}  // namespace trireme::planner
