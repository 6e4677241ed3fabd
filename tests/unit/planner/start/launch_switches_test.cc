// Switches that are proposed for a configuration are tried against the rules of its framework.
#include "planner/start/launch_switches.h"

#include <gtest/gtest.h>

#include "planner/launch/read_launch.h"

namespace trireme::planner {
namespace {

constexpr const char* kScript =
    "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
    "--num-attention-heads 32 --ffn-hidden-size 11008 --swiglu --normalization RMSNorm "
    "--disable-bias-linear --seq-length 4096 --max-position-embeddings 4096 "
    "--position-embedding-type rope --vocab-size 32000 --micro-batch-size 1 --global-batch-size 64 "
    "--bf16 --tensor-model-parallel-size 2 ";

std::vector<bool> hold(const std::string& more, const std::vector<LaunchSwitch>& switches) {
  const LaunchConfig config = read_launch(LaunchFormat::kMegatron, kScript + more, "run.sh");
  LaunchOptions options;
  options.cluster = "dgx-h100x1";
  return switches_that_hold(config, options, switches);
}

constexpr LaunchSwitch kTensor = {"--tp-comm-overlap", "tp_comm_overlap=true"};
constexpr LaunchSwitch kLoss = {"--cross-entropy-loss-fusion", "cross_entropy_fusion=true"};
constexpr LaunchSwitch kGather = {"--overlap-param-gather", "overlap_param_gather=true"};
constexpr LaunchSwitch kReduce = {"--overlap-grad-reduce", "overlap_grad_reduce=true"};

TEST(LaunchSwitches, TensorOverlapNeedsSequenceParallelism) {
  EXPECT_EQ(hold("", {kTensor, kLoss}), (std::vector<bool>{false, true}));
  EXPECT_EQ(hold("--sequence-parallel", {kTensor, kLoss}), (std::vector<bool>{true, true}));
}

// Gathers overlap only beside reductions that do, under a distributed optimizer.
TEST(LaunchSwitches, GathersOverlapWhereTheOptimizerIsDistributed) {
  EXPECT_EQ(hold("", {kGather}), (std::vector<bool>{false}));
  EXPECT_EQ(hold("--use-distributed-optimizer --overlap-grad-reduce", {kGather}),
            (std::vector<bool>{true}));
  EXPECT_EQ(hold("--use-distributed-optimizer", {kReduce}), (std::vector<bool>{true}));
}

}  // namespace
}  // namespace trireme::planner
