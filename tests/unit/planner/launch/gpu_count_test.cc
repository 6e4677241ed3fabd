#include "planner/launch/gpu_count.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "planner/launch/read_launch.h"

namespace trireme::planner {
namespace {

constexpr const char* kStartedGpt =
    " pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length "
    "2048 "
    "--max-position-embeddings 2048 --vocab-size 51200 --micro-batch-size 2 --global-batch-size "
    "64 ";

LaunchConfig read_start(const std::string& start, const std::string& more = "") {
  return read_megatron(start + kStartedGpt + more, "run.sh", {});
}

std::string refusal_of_start(const std::string& start, const std::string& more = "") {
  try {
    read_start(start, more);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// 0 and words were passed over, and the GPUs filled in from elsewhere.
TEST(GpuCount, CountsThatNoLauncherTakesAreRefused) {
  for (const char* start :
       {"\ntorchrun --nproc_per_node 0", "\ntorchrun --nproc_per_node=eight --nnodes 2",
        "\ndeepspeed --num_gpus 0", "\ntorchrun --nproc-per-node 8 --nnodes two",
        "\naccelerate launch --num_processes 8x", "\ndeepspeed --num_gpus -3"}) {
    EXPECT_NE(refusal_of_start(start).find("run.sh:2"), std::string::npos)
        << start << refusal_of_start(start);
    EXPECT_NE(refusal_of_start(start).find("a whole number of at least 1"), std::string::npos)
        << start;
  }
  for (const char* start :
       {"torchrun --nproc_per_node gpu", "torchrun --nproc_per_node auto --nnodes 1:4",
        "torchrun --nproc_per_node $GPUS --nnodes $NODES",
        "torchrun --nproc_per_node $(nvidia-smi)", "srun -N 2-4 torchrun --nproc_per_node 8",
        "deepspeed --num_gpus -1"}) {
    EXPECT_EQ(refusal_of_start(start), "") << start;
  }
  EXPECT_EQ(read_start("torchrun --nproc_per_node 8 --nnodes 2").gpus, 16);
}

// llm-jp's scripts: a count that only a run would tell was an argument that could not be worked
// out, and took the verdict away.
TEST(GpuCount, AnOpenCountOfMpirunIsNoArgumentOfTheTraining) {
  const LaunchConfig config =
      read_start("NODES=$(wc -l < $PBS_NODEFILE)\nN=$((${NODES} * 8))\nmpirun -np $N --npernode 8");
  EXPECT_TRUE(config.unreadable.empty());
  EXPECT_EQ(config.layout.micro_batch, 2);
}

// The launcher of a script within a script counts too.
TEST(GpuCount, OfTheCommandThatStartsAScript) {
  const std::string inner = "export TP=2\nsrun --nodes 4 --gpus-per-node 8 bash -c 'python";
  const LaunchConfig config =
      read_megatron(inner + kStartedGpt + "--tensor-model-parallel-size $TP'", "run.sh", {});
  EXPECT_EQ(config.gpus, 32);
  EXPECT_EQ(config.layout.tensor, 2);
}

// Python's int() takes neither 2.0 nor 5e8.
TEST(GpuCount, WholeNumbersOfFlagsAreWrittenAsSuch) {
  EXPECT_NE(refusal_of_start("torchrun", "--tensor-model-parallel-size 2.0").find("a whole number"),
            std::string::npos);
  EXPECT_NE(refusal_of_start("torchrun", "--train-samples 1e6 --pipeline-model-parallel-size 1e1"),
            "");
  EXPECT_EQ(refusal_of_start("torchrun", "--tensor-model-parallel-size 2"), "");
}

// What accelerate is told is for one host: a run on four was one on 8 GPUs.
TEST(GpuCount, MasonStartsAcceleratesProcessesOnEveryNode) {
  const LaunchConfig config = read_start(
      "python mason.py --cluster ai2/jupiter --num_nodes 4 --gpus 8 -- accelerate launch "
      "--num_processes 8");
  EXPECT_EQ(config.gpus, 32);
  EXPECT_EQ(config.gpus_per_node, 8);
}

}  // namespace
}  // namespace trireme::planner
