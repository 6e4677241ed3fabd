#include "planner/plan/offload.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "planner/cost/estimate.h"
#include "planner/cost/offload_cost.h"
#include "planner/cost/offload_fit.h"
#include "tests/unit/planner/small_job.h"
#include "topologies/node_parts.h"

namespace trireme::planner {
namespace {

Estimate estimate_of(const Job& job) {
  Plan plan;
  plan.sharding = Sharding::kFull;
  plan.sharded = job.cluster.gpus;
  plan.recompute = Recompute::kFull;
  Estimate estimate;
  Estimator(job).estimate(plan, estimate);
  return estimate;
}

TEST(Offload, IsReadAndWrittenByName) {
  const Offload offload = parse_offload("optimizer=0.5,gradients,parameters=nvme,activations");
  EXPECT_EQ(offload.optimizer, OffloadTo::kHost);
  EXPECT_DOUBLE_EQ(offload.optimizer_share, 0.5);
  EXPECT_EQ(offload.parameters, OffloadTo::kNvme);
  EXPECT_EQ(to_text(offload), "optimizer=0.5,gradients,parameters=nvme,activations");
  for (const char* text : {"weights", "optimizer=2", "optimizer=0", "gradients=0.5", "optimizer=x",
                           "optimizer=", "optimizer,gradients,optimizer=0.5"}) {
    EXPECT_THROW(parse_offload(text), Error) << text;
  }
}

// DGX A100 with cards of 40 GB has 1 TB, not the 2 TB beside cards of 80 (DU-09821-001).
TEST(Offload, HostsOfOneArchitectureDiffer) {
  EXPECT_EQ(host_of(small_job("llama-3.1-8b", "dgx-a100-40gb", "megatron")).memory_gib, 1024);
  EXPECT_EQ(host_of(small_job("llama-3.1-8b", "dgx-a100-80gb", "megatron")).memory_gib, 2048);
}

// A board of four Grace Hoppers was told 480 GiB beside each; JUPITER's and Isambard-AI's have 120.
TEST(Offload, BoardsOfFourGraceHoppersHaveLessBesideEach) {
  // Amazon's own tables; both had 2,048 GiB.
  EXPECT_EQ(host_of(small_job("llama-3.2-1b", "aws-g5", "megatron")).memory_gib, 768);
  EXPECT_EQ(host_of(small_job("llama-3.2-1b", "a10", "megatron")).memory_gib, 768);
  EXPECT_EQ(host_of(small_job("llama-3.1-8b", "jupiter", "megatron")).memory_gib, 4 * 120);
  EXPECT_EQ(host_of(small_job("llama-3.1-8b", "alps", "megatron")).memory_gib, 4 * 120);
  EXPECT_EQ(host_of(small_job("llama-3.1-8b", "gh200", "megatron")).memory_gib, 480);
  EXPECT_EQ(host_of(small_job("llama-3.1-8b", "gb200-nvl72", "megatron")).memory_gib, 36 * 480);
}

// optimizer,parameters was the same as optimizer under this project's runtime, without a word.
TEST(Offload, WhatMovesNothingIsSaid) {
  Plan plan;
  plan.sharding = Sharding::kFull;
  plan.sharded = 8;
  for (const char* framework : {"trireme", "deepspeed", "fsdp2"}) {
    Job job = small_job("llama-3.1-8b", "dgx-h100", framework);
    job.offload = parse_offload("optimizer,parameters");
    const auto memory_of = [&](const char* offload) {
      Job other = job;
      other.offload = parse_offload(offload);
      MemoryEstimate memory;
      MemoryModel(other).estimate(plan, memory);
      return memory.allocated_gib;
    };
    const bool idle = memory_of("optimizer,parameters") == memory_of("optimizer");
    EXPECT_EQ(idle, !idle_offload(job, plan).empty()) << framework;
    job.offload = parse_offload("optimizer");
    EXPECT_EQ(idle_offload(job, plan), "") << framework;
  }
}

// Twelve bytes a parameter of Adam in mixed precision leave the eight GPUs, and are what the host
// gets, with DeepSpeed's gradients of the step beside its sums.
TEST(Offload, WhatLeavesTheGpuIsOnTheHost) {
  Job job = small_job("llama-3.1-8b", "dgx-a100-80gb", "deepspeed");
  const Estimate before = estimate_of(job);
  job.offload = parse_offload("optimizer,gradients");
  const Estimate after = estimate_of(job);
  EXPECT_DOUBLE_EQ(after.memory.stages[0].items.optimizer, 0);
  EXPECT_LT(after.memory.allocated_gib, before.memory.allocated_gib - 8);
  const double parameters = static_cast<double>(models::parameter_count(job.model));
  const double gib = 1024.0 * 1024 * 1024;
  // Both are pinned: sums of 2.008 GB a rank in 2 GiB, the step's as a group of 1e9 elements, in
  // 4 GiB, and 15 MB in 16 MiB.
  EXPECT_NEAR(after.memory.host_gib, 12 * parameters / gib + 8 * (2 + 4 + 1 / 64.0 + 3), 0.01);
}

// A host was a quarter too small: what is pinned takes the next power of two (PyTorch's
// CachingHostAllocator), and ZeRO-3 has sums of gradients beside the step's own. Llama 3 70B over
// eight ranks, 8.82e9 elements each: 12 bytes of states; gradients in eight groups of 4 GB, in 4
// GiB each, and one of 3.28 GB, in 4 GiB; sums and weights of 17.6 GB each in 32 GiB.
TEST(Offload, PinnedBuffersOfTheHostTakePowersOfTwo) {
  Job job = small_job("llama-3.1-70b", "dgx-a100-80gb", "deepspeed");
  job.offload = parse_offload("optimizer,gradients,parameters");
  const double gib = 1024.0 * 1024 * 1024;
  const double parameters = static_cast<double>(models::parameter_count(job.model));
  EXPECT_NEAR(estimate_of(job).memory.host_gib, 12 * parameters / gib + 8 * (9 * 4 + 32 + 32 + 3),
              0.1);
  // Stage 2 pins masters and gradients, 35.3 GB each, and 16-bit weights on their way up; two bytes
  // of sums are not pinned.
  job.offload = parse_offload("optimizer,gradients");
  Plan plan;
  plan.sharding = Sharding::kGradients;
  plan.sharded = 8;
  plan.recompute = Recompute::kFull;
  Estimate estimate;
  Estimator(job).estimate(plan, estimate);
  EXPECT_NEAR(estimate.memory.host_gib, (8 + 2) * parameters / gib + 8 * (2 * 64 + 32 + 3), 0.1);
}

// Twice the parameters of a host take its cores twice as long, and a step without offload shows
// nothing of it.
TEST(Offload, TheHostsUpdateGoesWithTheParametersOfTheNode) {
  Job small = small_job("llama-3.1-8b", "dgx-a100-80gb", "deepspeed");
  EXPECT_DOUBLE_EQ(estimate_of(small).time.exposed.offload, 0);
  small.offload = parse_offload("optimizer,gradients");
  Job large = small_job("llama-3.1-70b", "dgx-a100-80gb", "deepspeed");
  large.offload = small.offload;
  const double ratio = static_cast<double>(models::parameter_count(large.model)) /
                       static_cast<double>(models::parameter_count(small.model));
  EXPECT_NEAR(estimate_of(large).time.exposed.optimizer / estimate_of(small).time.exposed.optimizer,
              ratio, 0.02 * ratio);
  // 8.03e9 parameters of 30 bytes, and of 8 while they are scaled, at 47 % of 410 GB/s.
  EXPECT_NEAR(estimate_of(small).time.exposed.optimizer, 8.03e9 * 38 / (0.47 * 410e9), 0.03);
}

// The update of a rank's own experts was divided by the data-parallel ranks once more: a quarter of
// the host's work of Qwen3-30B-A3B over four GPUs was left.
TEST(Offload, ExpertsThatARankHasAloneAreUpdatedWhole) {
  Job job = small_job("qwen3-30b-a3b", "dgx-a100-80gb", "megatron");
  job.offload = parse_offload("optimizer");
  Plan plan;
  plan.sharding = Sharding::kOptimizer;
  plan.sharded = 8;
  plan.expert = 8;
  plan.recompute = Recompute::kFull;
  Estimate estimate;
  Estimator(job).estimate(plan, estimate);
  const double parameters = static_cast<double>(models::parameter_count(job.model));
  EXPECT_NEAR(estimate.time.exposed.optimizer, parameters * 30 / (0.26 * 410e9), 0.05);
}

// DeepSpeed adds a micro-batch's gradients to those on the host: up and down again, 16 bits each.
TEST(Offload, EveryMicroBatchMovesGradientsThatLieOnTheHost) {
  Job job = small_job("llama-3.1-8b", "dgx-a100-80gb", "deepspeed@0.4");
  job.offload = parse_offload("optimizer,gradients");
  const auto exposed = [&](std::int64_t micro_batches) {
    Plan plan;
    plan.sharding = Sharding::kGradients;
    plan.sharded = 8;
    plan.micro_batches = micro_batches;
    plan.recompute = Recompute::kFull;
    job.global_batch = 8 * micro_batches;
    Estimate estimate;
    Estimator(job).estimate(plan, estimate);
    return estimate.time.exposed.offload;
  };
  const double once =
      4 * static_cast<double>(models::parameter_count(job.model)) / 8 / host_of(job).link_rate;
  EXPECT_NEAR(exposed(5) - exposed(1), 4 * once, 0.01);
  job.framework = find_framework("deepspeed@0.12");  // beside backward, which takes longer
  EXPECT_NEAR(exposed(5), exposed(1), 0.01);
}

// ZeRO-3's gradients go into the host's sum, come up again and go down in fp32, eight bytes each,
// while the host waits (until DeepSpeed 0.19.5, #8207); memory that is not pinned takes the rate of
// DeepSpeed's own table. All of it was hidden behind backward, and pinned.
TEST(Offload, GradientsOfZeroThreeHaltTheHost) {
  Job job = small_job("llama-3.1-8b", "dgx-a100-80gb", "deepspeed@0.17");
  job.offload = parse_offload("optimizer,gradients");
  const double elements = static_cast<double>(models::parameter_count(job.model)) / 8;
  const double weights_back = 2 * elements / 7.5e9;
  const double pinned = estimate_of(job).time.exposed.offload;
  EXPECT_NEAR(pinned, 8 * elements / host_of(job).link_rate + weights_back, 0.01);
  job.framework.offload_pinned = false;
  EXPECT_NEAR(estimate_of(job).time.exposed.offload, 8 * elements / 7.5e9 + weights_back, 0.01);
  job.framework = find_framework("deepspeed");
  EXPECT_LT(estimate_of(job).time.exposed.offload, pinned);
}

// Parameters that are not pinned come up while nothing runs: two passes of two bytes.
TEST(Offload, ParametersOfUnpinnedMemoryHaltTheHost) {
  Job job = small_job("llama-3.1-8b", "dgx-a100-80gb", "deepspeed@0.17");
  job.offload = parse_offload("optimizer,gradients,parameters");
  const double elements = static_cast<double>(models::parameter_count(job.model)) / 8;
  job.framework.offload_pinned = false;
  EXPECT_NEAR(estimate_of(job).time.exposed.offload, (8 + 2 * 2) * elements / 7.5e9, 0.02);
}

// PyTorch's plain Adam passes the host's memory many times (ZeRO-Offload, table 4).
TEST(Offload, TheHostsUpdateIsThatOfTheFramework) {
  const auto update = [](const char* framework) {
    Job job = small_job("llama-3.1-8b", "dgx-a100-80gb", framework);
    job.offload = parse_offload("optimizer,gradients,parameters");
    return estimate_of(job).time.exposed.optimizer;
  };
  // Fused, as trainers ask for it; foreach Adam is the plain one on a CPU.
  EXPECT_NEAR(update("fsdp2") / update("deepspeed"), 0.47 / 0.26 * 30 / 38, 0.02);
  Job plain = small_job("llama-3.1-8b", "dgx-a100-80gb", "fsdp2");
  plain.framework.foreach_optimizer = true;
  plain.offload = parse_offload("optimizer,gradients,parameters");
  EXPECT_NEAR(estimate_of(plain).time.exposed.optimizer / update("deepspeed"),
              1.43 / 0.25 * 30 / 38, 0.1);
}

// Offload took 0.88 of PCIe's raw rate and the graph 0.85.
TEST(Offload, TheHostsLinkIsTheGraphsPcie) {
  Job job = small_job("llama-3.1-8b", "dgx-a100-80gb", "fsdp2");
  job.cluster.gpus = 2;
  EXPECT_DOUBLE_EQ(host_of(job).link_rate,
                   topologies::pcie_carries(job.cluster.node.pcie_per_gpu).value);
}

// Every node with cards of one architecture had one host's memory: p4de 2,048 GiB for its 1,152.
TEST(Offload, HostsOfCloudsHaveTheirOwnMemory) {
  const auto gib = [](const char* cluster) {
    return host_of(small_job("llama-3.1-8b", cluster, "deepspeed")).memory_gib;
  };
  EXPECT_EQ(gib("aws-p4de"), 1152);
  EXPECT_EQ(gib("gcp-a3-ultra"), 2952);
  EXPECT_EQ(gib("dgx-h100"), 2048);
  Job job = small_job("llama-3.1-8b", "aws-p4de", "deepspeed");
  job.cluster = topologies::with_gpus_per_node(job.cluster, 2);
  EXPECT_EQ(host_of(job).memory_gib, 288);
  job.offload.host_gib = 500;
  EXPECT_EQ(host_of(job).memory_gib, 500);
}

// One H200 copies both ways at 50 GB/s, two at once at 37; two thirds of one way were taken for
// either, and for one way at a time.
TEST(Offload, GpusOfASocketShareItsMemory) {
  Job job = small_job("llama-3.1-8b", "hgx-h200", "trireme");
  const auto host = [&](std::int64_t gpus) {
    job.cluster.gpus = gpus;
    return host_of(job);
  };
  EXPECT_NEAR(host(1).link_rate, 54.8e9, 1.5e9);
  EXPECT_NEAR(host(1).both_rate, 49.9e9, 1.5e9);
  EXPECT_NEAR(host(2).link_rate, 54.6e9, 1.5e9);
  EXPECT_NEAR(host(2).both_rate, 36.8e9, 1e9);
  EXPECT_DOUBLE_EQ(host(4).both_rate, host(2).both_rate / 2);
  EXPECT_DOUBLE_EQ(host(8).both_rate, host(4).both_rate);  // the other socket has its own
}

// DeepSpeed over the layers of 2021 reaches 70 TFLOP/s on a V100 (ZeRO-Infinity, table 3) where
// later stacks reach 87: its runs with and without offload came out a fifth too fast.
TEST(Offload, ProductsOfTheStackOf2021TakeLonger) {
  const auto compute = [](const char* framework) {
    Job job = small_job("llama-2-70b", "dgx2", framework);
    job.framework.host_counts.clear();
    return estimate_of(job).time.exposed.compute;
  };
  EXPECT_NEAR(compute("deepspeed@0.4") / compute("deepspeed@0.6"), 1 / 0.8, 0.05);
}

// DeepSpeed's checkpoints go to memory that is not pinned while the stream waits: 3 GB/s down and
// 7.5 up; they were taken to cost nothing beside compute.
TEST(Offload, CheckpointsOfDeepSpeedHaltTheStream) {
  Job job = small_job("llama-3.1-8b", "dgx-a100-80gb", "deepspeed");
  job.offload = parse_offload("activations");
  const double kept = 2.0 * 2048 * 4096 * 32;
  EXPECT_NEAR(estimate_of(job).time.exposed.offload, kept / 3e9 + kept / 7.5e9, 0.01);
  job.framework = find_framework("fsdp2");
  EXPECT_NEAR(estimate_of(job).time.exposed.offload, 0, 1e-6);
}

// 8-bit moments on the host took the time of fp32's: 30 bytes of each parameter for 18.
TEST(Offload, TheHostMovesTheBytesOfTheOptimizerThatItRuns) {
  Job job = small_job("llama-3.1-8b", "dgx-h100", "deepspeed");
  job.offload = parse_offload("optimizer");
  const double full = estimate_of(job).time.exposed.optimizer;
  job.optimizer = Optimizer::kAdam8bit;
  EXPECT_NEAR(estimate_of(job).time.exposed.optimizer / full, (22 + 2 * 2.03125) / 38, 1e-6);
}

TEST(Offload, AHostThatIsTooSmallDoesNotFit) {
  Job job = small_job("llama-3.1-70b", "dgx-a100-80gb", "deepspeed");
  job.offload = parse_offload("optimizer,gradients,parameters");
  EXPECT_NE(estimate_of(job).memory.fit, Fit::kNo);
  job.offload.host_gib = 512;  // 16 bytes of 70.6e9 parameters are more
  EXPECT_EQ(estimate_of(job).memory.fit, Fit::kNo);
}

TEST(Offload, TheLeastThatMakesAPlanFitIsFound) {
  Plan plan;
  plan.sharding = Sharding::kFull;
  plan.sharded = 8;
  plan.recompute = Recompute::kFull;
  // 18 bytes of 70.6e9 parameters over eight GPUs are 148 GiB; without Adam's 12 they are 49.
  const Job large = small_job("llama-3.1-70b", "dgx-a100-80gb", "deepspeed");
  const auto found = offload_that_fits(large, plan);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(to_text(*found), "optimizer,gradients") << "ZeRO-Offload moves them together";
  EXPECT_FALSE(offload_that_fits(small_job("llama-3.1-8b", "dgx-a100-80gb", "deepspeed"), plan));
  // Megatron's gradient buffers stay: 6 bytes of 70.6e9 parameters over four tensor ranks.
  Plan tensor;
  tensor.tensor = 4;
  tensor.sharding = Sharding::kOptimizer;
  tensor.sharded = 2;
  tensor.recompute = Recompute::kFull;
  EXPECT_FALSE(offload_that_fits(small_job("llama-3.1-70b", "dgx-a100-80gb", "megatron"), tensor));
  EXPECT_FALSE(offload_that_fits(small_job("llama-3.1-405b", "dgx-a100-40gb", "deepspeed"), plan));
}

}  // namespace
}  // namespace trireme::planner
