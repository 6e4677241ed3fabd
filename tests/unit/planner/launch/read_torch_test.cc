// torchtitan, DeepSpeed and accelerate.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "core/error.h"
#include "planner/launch/launch_case.h"
#include "planner/launch/read_launch.h"

namespace trireme::planner {
namespace {

constexpr const char* kTitan = R"([model]
name = "llama3"
flavor = "70B"
[training]
local_batch_size = 8
seq_len = 8192
[parallelism]
tensor_parallel_degree = 8
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "Interleaved1F1B"
[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"
[compile]
enable = true
)";

class ReadTorchtitan : public testing::Test {
 protected:
  void SetUp() override {
    if (!reads_format(LaunchFormat::kTorchtitan)) {
      GTEST_SKIP() << "built without toml++";
    }
  }
};
class ReadAccelerate : public testing::Test {
 protected:
  void SetUp() override {
    if (!reads_format(LaunchFormat::kAccelerate)) {
      GTEST_SKIP() << "built without yaml-cpp";
    }
  }
};

LaunchCase titan(const std::string& text, const std::vector<std::string>& more = {}) {
  return make_launch_case(read_torchtitan(text, "t.toml", more), {.cluster = "dgx-h100x8"});
}

TEST_F(ReadTorchtitan, KeysAreGatheredUnlessTheFilePassesThemOn) {
  EXPECT_TRUE(titan(kTitan).job.framework.context_gather);
  EXPECT_FALSE(titan(kTitan, {"--parallelism.context_parallel_rotate_method", "alltoall"})
                   .job.framework.context_gather);
}

TEST_F(ReadTorchtitan, AFileIsPredictedAsItsOwnProgramAndRelease) {
  const auto named = [](const std::string& text, const LaunchOptions& beside = {}) {
    LaunchOptions options = beside;
    options.cluster = "dgx-h100x8";
    return full_name(
        make_launch_case(read_launch(LaunchFormat::kTorchtitan, text, "t.toml"), options)
            .job.framework);
  };
  const std::string text = kTitan;
  EXPECT_EQ(named(text), "torchtitan");
  EXPECT_EQ(named("# For torchtitan v0.1.0, from its folder.\n" + text), "torchtitan@0.1.0");
  EXPECT_EQ(named("# For torchtitan v17.\n" + text), "torchtitan");  // not listed
  EXPECT_EQ(named("[training]\nbatch_size = 2\ncompile = true\n", {.model = "llama-3.1-8b"}),
            "torchtitan@2025-05");
  EXPECT_EQ(named("[training]\ntensor_parallel_degree = 2\n", {.model = "llama-3.1-8b"}),
            "torchtitan@2024-12");
  EXPECT_EQ(named(text, {.framework = "torchtitan@0.2.0"}), "torchtitan@0.2.0");
  EXPECT_EQ(named(text, {.framework = "fsdp2"}), "fsdp2");
  EXPECT_THROW(named(text, {.framework = "megatron"}), Error);
}

TEST_F(ReadTorchtitan, DegreesScheduleAndBatch) {
  const LaunchCase found = titan(kTitan);
  EXPECT_EQ(found.job.model.name, "llama-3.1-70b");
  EXPECT_EQ(found.plan.sharded, 4);  // -1: 64 / (8 x 2)
  EXPECT_EQ(found.plan.replicas, 1);
  EXPECT_EQ(found.plan.virtual_pipeline, 2);
  EXPECT_EQ(found.plan.micro_batch, 1);
  EXPECT_EQ(found.plan.micro_batches, 8);
  EXPECT_EQ(found.job.global_batch, 32);
  EXPECT_FALSE(found.plan.reshard_after_forward);  // the default with a pipeline
  EXPECT_EQ(found.plan.recompute, Recompute::kSelective);
  EXPECT_EQ(found.plan.recompute_modules, kTorchPerOp);
  EXPECT_TRUE(found.job.framework.compile);
  // 80 layers and two of embedding and head over 4 chunks: 20.5, the first and last one layer less.
  EXPECT_EQ(found.plan.stage_layers, (std::vector<std::int64_t>{20, 21, 20, 19}));
}

TEST_F(ReadTorchtitan, DefaultsAndReplicas) {
  const LaunchCase found = titan(
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[parallelism]\ndata_parallel_replicate_degree "
      "= 8\n");
  EXPECT_EQ(found.job.sequence, 2048);
  EXPECT_EQ(found.plan.micro_batch, 8);
  EXPECT_EQ(found.plan.replicas, 8);
  EXPECT_EQ(found.plan.sharded, 8);
  EXPECT_EQ(found.plan.recompute, Recompute::kFull);  // selective, every second block
  EXPECT_EQ(found.plan.recompute_layers, 16);
  EXPECT_TRUE(found.plan.reshard_after_forward);
}

TEST_F(ReadTorchtitan, ArgumentsAndGradientAccumulation) {
  const LaunchCase found = titan(kTitan, {"--training.global_batch_size", "128",
                                          "--parallelism.pipeline_parallel_microbatch_size=2",
                                          "--parallelism.enable_async_tensor_parallel"});
  EXPECT_EQ(found.job.global_batch, 128);
  EXPECT_EQ(found.plan.micro_batch, 2);
  EXPECT_EQ(found.plan.micro_batches, 16);  // 128 / (4 x 2)
  EXPECT_TRUE(found.job.framework.tp_comm_overlap);
}

TEST_F(ReadTorchtitan, NoRecomputeIsAChoiceAndNotMissing) {
  const LaunchCase found =
      titan(std::string(kTitan) + "\n", {"--activation_checkpoint.mode", "none"});
  EXPECT_EQ(found.plan.recompute, Recompute::kNone);
}

TEST_F(ReadTorchtitan, OlderSectionsAndCompiledParts) {
  const LaunchCase old = titan(
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\nconverters = "
      "\"float8\"\n[training]\nbatch_size = 2\n"
      "compile = true\ntensor_parallel_degree = 4\n[experimental]\ncontext_parallel_degree = 2\n");
  EXPECT_EQ(old.plan.tensor, 4);
  EXPECT_EQ(old.plan.context, 2);
  EXPECT_EQ(old.plan.micro_batch, 2);
  EXPECT_TRUE(old.job.framework.compile);
  EXPECT_EQ(old.job.precision, topologies::Precision::kFp8);
  const LaunchCase loss = titan(
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[compile]\nenable = true\ncomponents = "
      "[\"loss\"]\n");
  EXPECT_FALSE(loss.job.framework.compile);
  EXPECT_TRUE(loss.job.framework.cross_entropy_fusion);
}

// An 8B run of early 2025, when compile = true left the loss out, was told 30 to 43 GiB under any
// release and took 47.7.
TEST_F(ReadTorchtitan, WhetherOlderCompileHasTheLossIsItsReleasesChoice) {
  const LaunchCase old = titan(
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nbatch_size = 1\n"
      "compile = true\n");
  EXPECT_TRUE(old.job.framework.cross_entropy_fusion);  // of the latest release that has the key
  EXPECT_EQ(old.job.framework.fused_logit_bytes, 4);
  Framework winter = find_framework("torchtitan@2024-12");
  apply_setting(winter, "compile", "true");
  EXPECT_FALSE(winter.cross_entropy_fusion);
  EXPECT_EQ(winter.logit_bytes, 14);
}

// A file whose components are the model alone was told the memory of a compiled loss: 23.7 GiB for
// a run that took 29.5.
TEST_F(ReadTorchtitan, AModelCompiledWithoutItsLossHasPlainLogits) {
  const std::string text =
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[compile]\nenable = true\n";
  EXPECT_FALSE(titan(text + "components = [\"model\"]\n").job.framework.cross_entropy_fusion);
  EXPECT_TRUE(titan(text).job.framework.cross_entropy_fusion);
}

TEST_F(ReadTorchtitan, LayersPerStageAndModuleParts) {
  const LaunchCase found =
      titan(kTitan, {"--parallelism.pipeline_parallel_layers_per_stage", "11"});
  EXPECT_EQ(found.plan.virtual_pipeline, 4);  // 82 / 11 rounded up = 8 stages on 2 ranks
  const LaunchCase parts = titan(
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[parallelism]\npipeline_parallel_degree = 2\n"
      "module_fqns_per_model_part = [[\"tok_embeddings\", \"layers.0\"], [\"layers.1\", "
      "\"layers.2\", "
      "\"norm\", \"output\"]]\n");
  EXPECT_EQ(parts.plan.stage_layers, (std::vector<std::int64_t>{1, 2}));
}

void expect_line(LaunchFormat format, const std::string& text, const std::string& where) {
  try {
    read_launch(format, text, "f", {});
    ADD_FAILURE() << text;
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).substr(0, where.size()), where) << error.what();
  }
}

TEST_F(ReadTorchtitan, SchedulesInAnyCase) {
  const auto schedule = [](const std::string& name) {
    return read_torchtitan(
               "[parallelism]\npipeline_parallel_degree = 2\n"
               "pipeline_parallel_schedule = \"" +
                   name + "\"\n",
               "f", {})
        .layout.schedule;
  };
  EXPECT_EQ(schedule("gpipe"), Schedule::kGpipe);
  EXPECT_EQ(schedule("1f1b"), Schedule::kOneForwardOneBackward);
  EXPECT_EQ(schedule("INTERLEAVED1F1B"), Schedule::kInterleaved);
}

// Both were read as interleaved 1F1B, whose bubble and memory are others.
TEST_F(ReadTorchtitan, SchedulesInAVAreReadAsWhatTheyAre) {
  for (const auto& [name, schedule] : {std::pair{"ZBVZeroBubble", Schedule::kZeroBubbleV},
                                       std::pair{"dualpipev", Schedule::kDualPipeV}}) {
    const LaunchConfig config =
        read_torchtitan(std::string("[parallelism]\npipeline_parallel_degree = 4\n"
                                    "pipeline_parallel_schedule = \"") +
                            name + "\"\n[training]\nlocal_batch_size = 16\n",
                        "f", {});
    EXPECT_EQ(config.layout.schedule, schedule);
    EXPECT_EQ(config.layout.virtual_pipeline, 2);
    EXPECT_TRUE(std::ranges::none_of(config.remarks, [](const std::string& remark) {
      return remark.find("modelled as interleaved") != std::string::npos;
    }));
  }
}

TEST_F(ReadTorchtitan, ErrorsNameTheirLine) {
  expect_line(LaunchFormat::kTorchtitan, "[model]\nname = \n", "f:2");
  expect_line(LaunchFormat::kTorchtitan, "[training]\nseq_len = \"long\"\n", "f:2");
  expect_line(LaunchFormat::kTorchtitan, "[activation_checkpoint]\nmode=\"a\"\n[model]\nname=\"x\"",
              "f:2");
  expect_line(LaunchFormat::kTorchtitan, "[fruit]\napple = 1\n", "f: ");
  expect_line(LaunchFormat::kDeepspeed, "{\n\"zero_optimization\": {\n\"stage\": 7}}", "f:3");
  expect_line(LaunchFormat::kDeepspeed, "{\n\"train_batch_size\": \"x\"}", "f:2");
  expect_line(LaunchFormat::kDeepspeed, "{\n\"train_batch_size\": 1,\n", "f:");
  expect_line(LaunchFormat::kDeepspeed, "{\"apple\": 1}", "f: ");
  expect_line(LaunchFormat::kAccelerate, "num_processes: 8\ndistributed_type: CLOUD\n", "f:2");
  expect_line(LaunchFormat::kAccelerate, "num_processes: 8\n a: [\n", "f:");
  expect_line(LaunchFormat::kAccelerate, "num_processes: many\n", "f:1");
  expect_line(LaunchFormat::kAccelerate,
              "num_processes: 8\ndistributed_type: FSDP\nfsdp_config:\n  fsdp_version: 3\n", "f:4");
  // A quote that is not closed takes the keys after it into its value.
  expect_line(LaunchFormat::kAccelerate,
              "distributed_type: FSDP\nmixed_precision: \"bf16\nnum_processes: 8\n", "f:");
  expect_line(LaunchFormat::kAccelerate,
              "distributed_type: FSDP\nmixed_precision: \"bf16\nnum_processes: 8\nx: \"\n", "f:2");
  expect_line(LaunchFormat::kAccelerate, "apple: 1\n", "f: ");
}

LaunchCase deepspeed(const std::string& text, std::optional<std::int64_t> batch = {}) {
  return make_launch_case(
      read_deepspeed(text, "d.json", {}),
      {.model = "llama-3.1-8b", .cluster = "dgx-h100x2", .sequence = 4096, .global_batch = batch});
}

// pin_memory was of no effect: copies of memory that is not pinned halt the host.
TEST(ReadDeepspeed, MemoryThatIsNotPinnedIsRead) {
  const auto pinned = [](const std::string& part) {
    return deepspeed(R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 3, )" + part +
                     "}}")
        .job.framework.offload_pinned;
  };
  EXPECT_TRUE(pinned(R"("offload_optimizer": {"device": "cpu"})"));
  EXPECT_TRUE(pinned(R"("offload_optimizer": {"device": "none", "pin_memory": false})"));
  EXPECT_FALSE(pinned(R"("offload_optimizer": {"device": "cpu", "pin_memory": false})"));
  EXPECT_FALSE(pinned(R"("offload_param": {"device": "cpu", "pin_memory": false})"));
}

// The engine adds gradients up in the model's type where data_types names none; it was taken to be
// fp32, 16 GB more of a model of 8B.
TEST(ReadDeepspeed, SumsOfGradientsHaveTheModelsTypeUnlessNamed) {
  const auto sums = [](const char* type) {
    return deepspeed(std::string(R"({"train_batch_size": 64, "bf16": {"enabled": true},
      "zero_optimization": {"stage": 1})") +
                     type + "}")
        .job.framework.gradient_bytes;
  };
  EXPECT_DOUBLE_EQ(sums(""), 2);
  EXPECT_DOUBLE_EQ(sums(R"(, "data_types": {"grad_accum_dtype": "bf16"})"), 2);
  EXPECT_DOUBLE_EQ(sums(R"(, "data_types": {"grad_accum_dtype": "fp32"})"), 4);
}

// A size of sub-groups was said to matter for nothing, then taken as DeepSpeed's own: the step's
// copies and the host's buffers are counted by it.
TEST(ReadDeepspeed, NumbersThatAreTakenAsItsOwnAreNamedSo) {
  const LaunchConfig config = read_deepspeed(
      R"({"zero_optimization": {"stage": 3, "sub_group_size": 1e8, "contiguous_gradients": false,
          "stage3_max_reuse_distance": 100000000}})",
      "d.json", {});
  const auto says = [&](const char* words) {
    return std::ranges::count(config.remarks, std::string(words));
  };
  EXPECT_EQ(says("taken as DeepSpeed's own: stage3_max_reuse_distance 1e+09 (not 100000000)"), 1);
  EXPECT_EQ(std::ranges::count(config.choices, "sub_group_elements=100000000"), 1);
  EXPECT_EQ(says("not modelled, and nothing here depends on it: contiguous_gradients false"), 1);
}

// Threads that a rank's optimizer on the host has were all of a node's, whatever was exported.
TEST(ReadDeepspeed, ThreadsOfTheHostsOptimizerAreThoseOfItsProcess) {
  const std::string flags =
      "pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 "
      "--max-position-embeddings 64 --micro-batch-size 1 --global-batch-size 8 --vocab-size 512 "
      "--optimizer-cpu-offload --use-distributed-optimizer --use-precision-aware-optimizer";
  const auto threads = [&flags](const std::string& before, const std::string& starter) {
    const LaunchConfig config = read_launch(LaunchFormat::kMegatron, before + starter + flags,
                                            "run.sh", {}, LaunchReading{});
    return make_launch_case(config, {.cluster = "dgx-h100"}).job.framework.host_threads;
  };
  EXPECT_EQ(threads("", "torchrun --nproc_per_node 8 "), 1);
  EXPECT_EQ(threads("export OMP_NUM_THREADS=6\n", "torchrun --nproc_per_node 8 "), 6);
  EXPECT_EQ(threads("", "torchrun --nproc_per_node 1 "), 0);
  EXPECT_EQ(threads("", "srun --ntasks-per-node=8 python "), 0);
}

TEST(ReadDeepspeed, BatchArithmetic) {
  // 128 = micro x 4 x 16
  const LaunchCase micro = deepspeed(R"({"train_batch_size": 128, "gradient_accumulation_steps": 4,
    "bf16": {"enabled": true}, "zero_optimization": {"stage": 3}})");
  EXPECT_EQ(micro.plan.micro_batch, 2);
  EXPECT_EQ(micro.plan.micro_batches, 4);
  const LaunchCase times = deepspeed(R"({"train_batch_size": 128,
    "train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": true}})");
  EXPECT_EQ(times.plan.micro_batches, 2);
  const LaunchCase whole = deepspeed(R"({"train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 3, "train_batch_size": "auto", "bf16": {"enabled": "auto"}})");
  EXPECT_EQ(whole.job.global_batch, 4 * 3 * 16);
  EXPECT_EQ(whole.job.precision, topologies::Precision::kBf16);
  EXPECT_EQ(deepspeed(R"({"train_batch_size": 64})").plan.micro_batch, 4);  // one pass
  EXPECT_EQ(deepspeed(R"({"zero_optimization": {"stage": 1}})", 64).plan.micro_batches, 4);
}

TEST(ReadDeepspeed, PipelineSection) {
  const LaunchCase found =
      deepspeed(R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2,
    "zero_optimization": {"stage": 1}, "pipeline": {"stages": 2, "activation_checkpoint_interval": 1}})");
  EXPECT_EQ(found.plan.pipeline, 2);
  EXPECT_EQ(found.plan.sharded, 8);
  EXPECT_EQ(found.plan.micro_batches, 2);
  EXPECT_EQ(found.plan.recompute, Recompute::kFull);
}

TEST(ReadDeepspeed, StagesAndGroups) {
  constexpr Sharding kStages[] = {Sharding::kNone, Sharding::kOptimizer, Sharding::kGradients,
                                  Sharding::kFull};
  for (int stage = 0; stage < 4; ++stage) {
    const LaunchCase found =
        deepspeed("{\"zero_optimization\": {\"stage\": " + std::to_string(stage) + "}}");
    EXPECT_EQ(found.plan.sharding, kStages[stage]);
    EXPECT_EQ(found.plan.sharded, stage == 0 ? 1 : 16);
    EXPECT_EQ(found.job.framework.overlap_grad_reduce, stage == 3);
  }
  const LaunchCase mics = deepspeed(R"({"zero_optimization": {"stage": 3, "mics_shard_size": 8}})");
  EXPECT_EQ(mics.plan.sharded, 8);
  EXPECT_EQ(mics.plan.replicas, 2);
  const LaunchCase tensor = deepspeed(
      R"({"zero_optimization": {"stage": 1, "reduce_bucket_size": 2e8}, "tensor_parallel": {"autotp_size": 4}})");
  EXPECT_EQ(tensor.plan.tensor, 4);
  EXPECT_EQ(tensor.plan.sharded, 4);
  EXPECT_EQ(tensor.job.framework.bucket_elements, 200000000);
}

LaunchCase accelerate(const std::string& text) {
  return make_launch_case(read_accelerate(text, "a.yaml", {}),
                          {.model = "llama-3.2-3b", .cluster = "dgx-h100x2", .sequence = 4096});
}

TEST_F(ReadAccelerate, FullySharded) {
  const LaunchCase second = accelerate(
      "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 16\nfsdp_config:\n  "
      "fsdp_version: 2\n"
      "  fsdp_reshard_after_forward: false\n  fsdp_activation_checkpointing: true\n");
  EXPECT_EQ(second.job.framework.name, "accelerate");
  EXPECT_EQ(second.plan.sharded, 16);
  EXPECT_FALSE(second.plan.reshard_after_forward);
  EXPECT_EQ(second.plan.recompute, Recompute::kFull);
  EXPECT_EQ(second.job.framework.reduce_bytes, 2);
  const LaunchCase hybrid = accelerate(
      "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 16\nfsdp_config:\n"
      "  fsdp_sharding_strategy: HYBRID_SHARD\n");
  EXPECT_EQ(hybrid.job.framework.name, "accelerate-fsdp1");
  EXPECT_EQ(hybrid.plan.sharded, 8);
  EXPECT_EQ(hybrid.plan.replicas, 2);
  const LaunchCase none = accelerate(
      "distributed_type: FSDP\nnum_processes: 4\nfsdp_config:\n  fsdp_sharding_strategy: 3\n");
  EXPECT_EQ(none.plan.sharding, Sharding::kNone);
  EXPECT_EQ(none.plan.replicas, 4);
  EXPECT_EQ(none.job.precision, topologies::Precision::kFp32);
}

// accelerate#2925: without a policy nothing is wrapped, and one unit holds all parameters.
TEST_F(ReadAccelerate, NoLayerIsAUnitUnlessTheFileSaysSo) {
  const std::string file = "distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n";
  const auto unit = [&](const std::string& more) { return accelerate(file + more).plan.fsdp_unit; };
  EXPECT_EQ(unit("  fsdp_sharding_strategy: FULL_SHARD\n"), 0);
  EXPECT_EQ(unit("  fsdp_version: 2\n"), 0);
  EXPECT_EQ(unit("  fsdp_auto_wrap_policy: no_wrap\n"), 0);
  EXPECT_EQ(unit("  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"), 1);
  EXPECT_EQ(unit("  fsdp_auto_wrap_policy: SIZE_BASED_WRAP\n"), 1);
}

TEST_F(ReadAccelerate, ParallelismConfig) {
  const LaunchCase found = accelerate(
      "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 16\nfsdp_config:\n  "
      "fsdp_version: 2\n"
      "parallelism_config:\n  parallelism_config_dp_replicate_size: 2\n"
      "  parallelism_config_dp_shard_size: 4\n  parallelism_config_tp_size: 2\n");
  EXPECT_EQ(short_form(found.plan).substr(0, 13), "tp2.fsdp4.dp2");
}

TEST_F(ReadAccelerate, PluginsOfDeepspeedAndMegatron) {
  const LaunchCase zero = accelerate(
      "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_processes: 8\ndeepspeed_config:\n"
      "  zero_stage: 2\n  gradient_accumulation_steps: 4\n");
  EXPECT_EQ(zero.job.framework.name, "deepspeed");
  EXPECT_EQ(zero.plan.sharding, Sharding::kGradients);
  EXPECT_EQ(zero.plan.micro_batches, 4);
  const LaunchCase megatron = accelerate(
      "distributed_type: MEGATRON_LM\nmixed_precision: bf16\nnum_processes: "
      "16\nmegatron_lm_config:\n"
      "  megatron_lm_tp_degree: 2\n  megatron_lm_pp_degree: 2\n  megatron_lm_num_micro_batches: 8\n"
      "  megatron_lm_sequence_parallelism: true\n  megatron_lm_use_distributed_optimizer: true\n"
      "  megatron_lm_recompute_activations: true\n");
  EXPECT_EQ(megatron.job.framework.name, "megatron");
  EXPECT_EQ(megatron.plan.sharded, 4);
  EXPECT_TRUE(megatron.plan.sequence_parallel);
  EXPECT_EQ(megatron.plan.micro_batches, 8);
}

TEST_F(ReadAccelerate, ADeepspeedFileBesideIt) {
  const std::string folder = testing::TempDir();
  std::ofstream(folder + "zero3.json")
      << R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 3}})";
  const std::string text =
      "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  deepspeed_config_file: "
      "zero3.json\n";
  const LaunchConfig config = read_accelerate(text, folder + "a.yaml", {});
  EXPECT_EQ(config.layout.sharding, Sharding::kFull);
  EXPECT_EQ(config.precision, "bf16");
  EXPECT_THROW(read_accelerate(text, folder + "nowhere/a.yaml", {}), Error);
}

TEST_F(ReadAccelerate, ADeviceIsNoDeepspeedFile) {  // was read without an end
  EXPECT_THROW(read_accelerate("distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n"
                               "  deepspeed_config_file: /dev/zero\n",
                               "a.yaml", {}),
               Error);
}

}  // namespace
}  // namespace trireme::planner
