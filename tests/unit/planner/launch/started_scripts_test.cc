// Scripts that start what another file says: a script beside them, torchtitan's TOML, a run's YAML.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "planner/launch/read_launch.h"

namespace trireme::planner {
namespace {

class StartedScripts : public testing::Test {
 protected:
  StartedScripts() {
    folder_ = std::filesystem::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
  }
  std::string written(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }

 private:
  std::filesystem::path folder_;
};

constexpr const char* kTraining =
    "TP=1\nfor a in $*; do if [[ $a == --tp* ]]; then TP=${a#*=}; fi; done\n"
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size 2048 "
    "--num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 --vocab-size 50257 "
    "--micro-batch-size $MBS --bf16 --tensor-model-parallel-size $TP\n";

// A launcher that starts a script of its folder was of no known format.
TEST_F(StartedScripts, AScriptBesideItIsRead) {
  written("train.sh", kTraining);
  const std::string outer = written("run.sh", "export MBS=2\nbash train.sh host --tp=4\n");
  const LaunchConfig config = read_launch_file(outer, {});
  EXPECT_EQ(config.layout.tensor, 4);
  EXPECT_EQ(config.layout.micro_batch, 2);
  EXPECT_EQ(config.gpus, 8);
  const std::string through =
      written("mpi.sh",
              "export MBS=2\nN=$1\nCMD=\"mpirun -np $N bash -c 'cd x && bash train.sh --tp=2' | "
              "tee log-$(date +%F)\"\neval $CMD\n");
  EXPECT_EQ(read_launch_file(through, {}, {"16"}).layout.tensor, 2);
}

// A script that submits itself was read once for each file that may be followed.
TEST_F(StartedScripts, AScriptThatSubmitsItselfIsReadOnce) {
  for (const std::string name : {"$0", "self.sbatch", "./self.sbatch"}) {
    const std::string outer =
        written("self.sbatch", "export MBS=2\nif [ -z $SLURM_JOB_ID ]; then sbatch " + name +
                                   "; exit; fi\n" + std::string(kTraining));
    const LaunchConfig config = read_launch_file(outer, {});
    EXPECT_TRUE(config.files.empty()) << name;
    EXPECT_EQ(config.layout.micro_batch, 2) << name;
  }
}

// Scripts of other names, and the batch system's command, were not followed.
TEST_F(StartedScripts, ScriptsOfOtherNamesAreRead) {
  written("train.slurm", kTraining);
  for (const char* start : {"sbatch --nodes=1 train.slurm host --tp=4\n",
                            "sbatch -N 2 --hold --time 1:00 train.slurm host --tp=4\n",
                            "CMD=\"sbatch train.slurm host --tp=4\"\nbash -c \"$CMD\"\n"}) {
    const LaunchConfig config =
        read_launch_file(written("submit.sh", std::string("export MBS=2\n") + start), {});
    EXPECT_EQ(config.layout.tensor, 4) << start;
  }
}

// What the script left open was lost on the way to the TOML, and a variable that it does not set
// was the word "true".
TEST_F(StartedScripts, WhatTorchtitansScriptLeavesOpenIsSaid) {
  written("a.toml", "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = 8192\n");
  const std::string script = written(
      "run.sh",
      "source ./env.sh\ntorchrun --nproc_per_node 8 -m torchtitan.train --job.config_file=a.toml "
      "--training.seq_len $SEQ --training.local_batch_size 2\n");
  const LaunchConfig config = read_launch_file(script, {});
  EXPECT_EQ(config.sequence, 8192);
  EXPECT_EQ(config.layout.micro_batch, 2);
  ASSERT_EQ(config.unset.size(), 1U);
  EXPECT_EQ(config.unset.front().value, "$SEQ");
  EXPECT_EQ(config.unread, std::vector<std::string>{"./env.sh"});
}

// torchtitan's own launchers were of no known format.
TEST_F(StartedScripts, TorchtitansTomlIsReadWithTheCommandsSettings) {
  written("configs/llama3_8b.toml",
          "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 2\nseq_len "
          "= 8192\n[parallelism]\ntensor_parallel_degree = 2\n");
  const std::string slurm = written(
      "multinode.slurm",
      "#SBATCH --nodes=2\nCONFIG_FILE=${CONFIG_FILE:-\"./configs/llama3_8b.toml\"}\nsrun torchrun "
      "--nnodes 2 --nproc_per_node 8 -m torchtitan.train --job.config_file ${CONFIG_FILE} "
      "--training.seq_len 4096 \"$@\"\n");
  if (!reads_format(LaunchFormat::kTorchtitan)) {
    GTEST_SKIP() << "built without toml++";
  }
  const LaunchConfig config =
      read_launch_file(slurm, {}, {"--parallelism.context_parallel_degree", "2"});
  EXPECT_EQ(config.format, LaunchFormat::kTorchtitan);
  EXPECT_EQ(config.model_name, "llama-3.1-8b");
  EXPECT_EQ(config.gpus, 16);
  EXPECT_EQ(config.sequence, 4096);
  EXPECT_EQ(config.layout.tensor, 2);
  EXPECT_EQ(config.layout.context, 2);
  const std::string lost =
      written("lost.sh", "torchrun -m torchtitan.train --job.config_file=missing/llama3_8b.toml\n");
  EXPECT_THROW(read_launch_file(lost, {}), Error);
}

// A script that looks into the run's YAML before it starts it lost what it starts it with.
TEST_F(StartedScripts, ACommandThatLooksIntoTheYamlStartsNothing) {
  if (!reads_format(LaunchFormat::kAccelerate)) {
    GTEST_SKIP() << "built without yaml-cpp";
  }
  written("recipes/sft.yaml",
          "model_name_or_path: Qwen/Qwen2.5-7B\nper_device_train_batch_size: 1\n");
  written("zero3.yaml",
          "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\nnum_processes: 8\n"
          "mixed_precision: bf16\n");
  const std::string script = written(
      "train.slurm",
      "while [[ $# -gt 0 ]]; do case $1 in --config) C=$2; shift 2;; *) exit 1;; esac; done\n"
      "F=recipes/$C.yaml\nif grep -qE 'use_vllm: true' \"$F\"; then V=1; fi\n"
      "L=\"accelerate launch --config_file zero3.yaml --num_processes 16\"\n"
      "srun bash -c \"$L sft.py --config $F\"\n");
  const LaunchConfig config = read_launch_file(script, {}, {"--config", "sft"});
  EXPECT_EQ(config.framework, "deepspeed");
  EXPECT_EQ(config.gpus, 16);
}

// accelerate launch without a file, behind a program that submits it, was DDP on one GPU.
TEST_F(StartedScripts, FlagsOfAccelerateLaunchStandForItsFile) {
  if (!reads_format(LaunchFormat::kAccelerate)) {
    GTEST_SKIP() << "built without yaml-cpp";
  }
  written("configs/stage3.conf",
          R"({"zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"},
              "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto"})");
  const std::string run =
      " train.py --model_name_or_path allenai/OLMo-2-1124-7B --max_seq_length 4096 "
      "--per_device_train_batch_size 1 --gradient_accumulation_steps 2 --bf16\n";
  const LaunchConfig file = read_launch_file(
      written("deepspeed.sh",
              "python submit.py --priority high -- accelerate launch --mixed_precision bf16 "
              "--num_processes 8 --use_deepspeed --deepspeed_config_file configs/stage3.conf" +
                  run),
      {});
  EXPECT_EQ(file.framework, "deepspeed");
  EXPECT_EQ(file.layout.sharding, Sharding::kFull);
  EXPECT_EQ(file.gpus, 8);
  const LaunchConfig stage = read_launch_file(
      written("zero.sh",
              "accelerate launch --num_processes 4 --use_deepspeed --zero_stage 2" + run),
      {});
  EXPECT_EQ(stage.framework, "deepspeed");
  EXPECT_EQ(stage.layout.sharding, Sharding::kGradients);
  const LaunchConfig fsdp = read_launch_file(
      written("fsdp.sh",
              "accelerate launch --num_processes 4 --use_fsdp --fsdp_sharding_strategy FULL_SHARD "
              "--fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP --mixed_precision=bf16" +
                  run),
      {});
  EXPECT_EQ(fsdp.framework, "fsdp1");
  EXPECT_EQ(fsdp.layout.sharding, Sharding::kFull);
  EXPECT_EQ(fsdp.precision, "bf16");
}

}  // namespace
}  // namespace trireme::planner
