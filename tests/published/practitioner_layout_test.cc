// Cases from people who train, about which layout is faster and what it costs in memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "models/presets.h"
#include "planner/cost/estimate.h"
#include "planner/plan/rules.h"
#include "topologies/profile.h"

namespace trireme::planner {
namespace {

Job job_of(const std::string& model, const std::string& cluster, const std::string& framework,
           std::int64_t sequence, std::int64_t batch) {
  Job job;
  job.model = models::load_model(model);
  job.cluster = topologies::load_cluster(cluster);
  job.framework = find_framework(framework);
  job.profile = topologies::shipped_profile();
  job.sequence = sequence;
  job.global_batch = batch;
  return job;
}

Estimate practitioner_estimate(const Job& job, Plan plan) {
  plan.micro_batches = job.global_batch / (plan.micro_batch * plan.data_parallel());
  EXPECT_FALSE(check_plan(job, plan)) << short_form(plan) << ": " << check_plan(job, plan)->detail;
  Estimate estimate;
  Estimator(job).estimate(plan, estimate);
  return estimate;
}

double tokens_per_gpu(const Job& job, const Estimate& estimate) {
  return static_cast<double>(job.global_batch * job.sequence) /
         (estimate.time.step_seconds * static_cast<double>(job.cluster.gpus));
}

// M21: 7B on eight A100 under DeepSpeed, long sequences (the length is not printed; 16,384 gives
// the printed times): Ulysses over 4 ranks with ZeRO-2 or 3, or tensor parallelism over 4.
TEST(PractitionerLayout, UlyssesAgainstTensorParallelism) {
  Job job = job_of("llama-2-7b", "dgx-a100-80gb", "deepspeed", 16384, 16);
  // Megatron-DeepSpeed's layers, not those of transformers, which `deepspeed` stands for.
  job.framework.host_counts.clear();
  job.framework.fp32_norms = false;
  job.framework.whole_logits = false;
  const auto at = [&](bool ulysses, Sharding sharding, bool recompute) {
    Plan plan;
    (ulysses ? plan.context : plan.tensor) = 4;
    plan.sequence_parallel = !ulysses;
    plan.sharded = 2;
    plan.sharding = sharding;
    plan.recompute = recompute ? Recompute::kFull : Recompute::kNone;
    return practitioner_estimate(job, plan);
  };
  struct Case {
    bool ulysses;
    Sharding sharding;
    bool recompute;
    double seconds;
  };
  const std::vector<Case> cases = {
      {true, Sharding::kFull, true, 13.000},       {true, Sharding::kGradients, true, 13.194},
      {true, Sharding::kFull, false, 10.329},      {true, Sharding::kGradients, false, 10.050},
      {false, Sharding::kGradients, true, 16.128}, {false, Sharding::kGradients, false, 12.109}};
  for (const Case& one : cases) {
    const Estimate estimate = at(one.ulysses, one.sharding, one.recompute);
    fmt::print("M21 {} {} {}: {:.2f} s ({:.2f}), {:.1f} GiB\n", one.ulysses ? "sp4" : "tp4",
               to_string(one.sharding), one.recompute ? "recompute" : "none",
               estimate.time.step_seconds, one.seconds, estimate.memory.allocated_gib);
    EXPECT_NEAR(estimate.time.step_seconds, one.seconds, 0.12 * one.seconds);
  }
  for (const bool recompute : {false, true}) {
    const Estimate ulysses = at(true, Sharding::kGradients, recompute);
    const Estimate tensor = at(false, Sharding::kGradients, recompute);
    EXPECT_LT(tensor.memory.allocated_gib, ulysses.memory.allocated_gib);
    EXPECT_GT(tensor.time.step_seconds, 1.05 * ulysses.time.step_seconds);
  }
}

// Ulysses gives every rank a share of the heads: there must be enough of them.
TEST(PractitionerLayout, UlyssesNeedsHeads) {
  const Job job = job_of("llama-2-7b", "dgx-a100-80gbx8", "deepspeed", 16384, 16);
  Plan plan;
  plan.context = 64;
  plan.micro_batches = 16;
  const auto found = check_plan(job, plan);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rule, Rule::kHeadsDivide);
}

// S04: 405B on 512 H100 under FSDP8 TP8 PP8, 32 sequences a rank: interleaving is a quarter faster
// than 1F1B and takes less memory, since torchtitan of that day cuts the batch into as many
// micro-batches as there are chunks: half the size each, with two chunks a rank. The zero-bubble
// schedule holds far more memory and cannot run on compiled blocks.
TEST(PractitionerLayout, SchedulesOf405B) {
  Job job = job_of("llama-3.1-405b", "hgx-h100-96gbx64", "fsdp2", 8192, 256);
  Plan plan;
  plan.tensor = plan.pipeline = plan.sharded = 8;
  plan.sequence_parallel = true;
  plan.sharding = Sharding::kFull;
  plan.reshard_after_forward = false;
  plan.micro_batch = 4;
  plan.recompute = Recompute::kFull;
  apply_setting(job.framework, "expandable_segments", "true");
  apply_setting(job.framework, "recorded_collectives", "true");
  Plan interleaved = plan;
  interleaved.virtual_pipeline = 2;
  interleaved.schedule = Schedule::kInterleaved;
  interleaved.micro_batch = 2;
  Plan zero_bubble = plan;
  zero_bubble.schedule = Schedule::kZeroBubbleH1;
  const Estimate three = practitioner_estimate(job, zero_bubble);
  job.precision = topologies::Precision::kFp8;
  apply_setting(job.framework, "compile", "true");
  apply_setting(job.framework, "tp_comm_overlap", "true");
  const Estimate one = practitioner_estimate(job, plan);
  const Estimate two = practitioner_estimate(job, interleaved);
  fmt::print(
      "S04: {:.0f} tokens/s {:.1f} GiB (100, 82.5), {:.0f} {:.1f} (128, 72.7), {:.1f} (89.7)\n",
      tokens_per_gpu(job, one), one.memory.reserved_gib, tokens_per_gpu(job, two),
      two.memory.reserved_gib, three.memory.reserved_gib);
  // 1.28 measured: PyTorch's interleaved schedule waits for both neighbours after every op.
  EXPECT_GT(one.time.step_seconds, 1.2 * two.time.step_seconds);
  EXPECT_NEAR(tokens_per_gpu(job, one), 100, 10);
  EXPECT_NEAR(tokens_per_gpu(job, two), 128, 0.15 * 128);
  // 7.5 % below: no reduction's input stands beside the most activations any more (it did by 1.5
  // GiB), for gradients wait for the last micro-batch; 5.7 % with it.
  EXPECT_NEAR(one.memory.reserved_gib, 82.5, 0.08 * 82.5);
  EXPECT_NEAR(two.memory.reserved_gib, 72.7, 0.06 * 72.7);
  EXPECT_LT(two.memory.reserved_gib, 0.95 * one.memory.reserved_gib);
  EXPECT_GT(three.memory.reserved_gib, 1.08 * one.memory.reserved_gib);
  zero_bubble.micro_batches = 8;
  const auto found = check_plan(job, zero_bubble);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rule, Rule::kFrameworkFeature);
}

// S05: 8B over eight stages: memory moves from the first to the last rank under zero bubble, whose
// last rank waits with the most weight gradients; full recompute costs a fifth of the speed.
TEST(PractitionerLayout, MemoryFlipsFromTheFirstToTheLastRank) {
  const Job job = job_of("llama-3.1-8b", "hgx-h100-96gb", "fsdp2", 512, 16);
  Plan interleaved;
  interleaved.pipeline = 8;
  interleaved.virtual_pipeline = 2;
  interleaved.schedule = Schedule::kInterleaved;
  Plan recomputed = interleaved;
  recomputed.recompute = Recompute::kFull;
  Plan zero_bubble = interleaved;
  zero_bubble.virtual_pipeline = 1;
  zero_bubble.schedule = Schedule::kZeroBubbleH1;
  const Estimate first = practitioner_estimate(job, interleaved);
  const Estimate second = practitioner_estimate(job, zero_bubble);
  const Estimate third = practitioner_estimate(job, recomputed);
  const auto tilt = [](const Estimate& estimate) {
    return estimate.memory.stages.back().items.total() -
           estimate.memory.stages.front().items.total();
  };
  EXPECT_GT(tilt(second), tilt(first) + 1);
  EXPECT_NEAR(first.time.step_seconds / second.time.step_seconds, 339.0 / 304.0, 0.15);
  EXPECT_NEAR(first.time.step_seconds / third.time.step_seconds, 243.0 / 304.0, 0.08);
  EXPECT_LT(third.memory.allocated_gib, first.memory.allocated_gib);
}

models::Transformer experts_90b() {
  models::Transformer model = models::load_model("qwen3-30b-a3b");
  model.name = "moe-90b";
  model.heads = 16;
  model.kv_heads = 8;
  model.vocab = 128256;
  model.moe->experts = 192;
  model.moe->expert_ffn = 1536;
  return model;
}

// S16: a mixture of experts of 90B parameters, 5B active, over 256 H100 with 2,048 tokens a GPU:
// 2.4 s and 2.8 % MFU, since every GPU gathers 45 GB and more a step over its network card.
TEST(PractitionerLayout, GathersOfExpertsTakeTheStep) {
  Job job = job_of("qwen3-30b-a3b", "dgx-h100x32", "fsdp2", 2048, 256);
  job.model = experts_90b();
  EXPECT_NEAR(static_cast<double>(models::parameter_count(job.model)), 90e9, 3e9);
  Plan plan;
  plan.sharded = 256;
  plan.sharding = Sharding::kFull;
  const Estimate everywhere = practitioner_estimate(job, plan);
  plan.expert = 8;
  const Estimate experts = practitioner_estimate(job, plan);
  fmt::print("S16: {:.2f} s with experts kept in the node, {:.2f} s without (2.4)\n",
             experts.time.step_seconds, everywhere.time.step_seconds);
  EXPECT_NEAR(experts.time.step_seconds, 2.4, 0.16 * 2.4);
  EXPECT_NEAR(experts.throughput.mfu, 0.028, 0.005);
  EXPECT_GT(experts.time.exposed.data_parallel, 0.7 * experts.time.step_seconds);
  // Within a hundredth: gathers over all GPUs hide their steps' latency behind the network cards.
  EXPECT_LT(experts.time.step_seconds, 1.01 * everywhere.time.step_seconds);
  // More tokens a GPU are nearly free.
  Job more = job;
  more.global_batch = 512;
  plan.micro_batch = 2;
  EXPECT_GT(tokens_per_gpu(more, practitioner_estimate(more, plan)),
            1.7 * tokens_per_gpu(job, experts));
}

// S20: 8B on eight GPUs, 32k tokens a GPU whatever the context degree: constant memory, and speed
// that falls with the quadratic part.
TEST(PractitionerLayout, ContextParallelismKeepsMemory) {
  struct Case {
    std::int64_t context, sequence;
    double tokens, gib;
  };
  const std::vector<Case> cases = {{1, 32768, 3890, 83.9},
                                   {2, 65536, 2540, 84.2},
                                   {4, 131072, 1071, 84.0},
                                   {8, 262144, 548, 84.5}};
  double first = 0;
  for (const Case& one : cases) {
    Job job = job_of("llama-3.1-8b", "hgx-h100-96gb", "fsdp2", one.sequence, 8 / one.context);
    job.precision = topologies::Precision::kFp8;
    apply_setting(job.framework, "compile", "true");
    apply_setting(job.framework, "expandable_segments", "true");
    Plan plan;
    plan.context = one.context;
    plan.sharded = 8 / one.context;
    plan.sharding = Sharding::kFull;
    plan.recompute = Recompute::kFull;
    const Estimate estimate = practitioner_estimate(job, plan);
    const double tokens = tokens_per_gpu(job, estimate);
    fmt::print("S20 cp{}: {:.0f} tokens/s ({:.0f}), {:.1f} GiB reserved ({:.1f})\n", one.context,
               tokens, one.tokens, estimate.memory.reserved_gib, one.gib);
    EXPECT_NEAR(estimate.memory.reserved_gib, one.gib, 0.03 * one.gib);
    EXPECT_NEAR(tokens, one.tokens, 0.27 * one.tokens);
    first = first > 0 ? first : estimate.memory.allocated_gib;
    EXPECT_NEAR(estimate.memory.allocated_gib, first, 0.01 * first);
  }
}

// U15: at a fixed global batch the micro-batch trades kernels' efficiency against the bubble: the
// best is neither the smallest nor the largest.
TEST(PractitionerLayout, TheMicroBatchHasAnOptimum) {
  const Job job = job_of("megatron-1.7b", "dgx-a100-80gb", "megatron", 1024, 64);
  std::vector<double> seconds;
  std::vector<double> bubble;
  for (const std::int64_t micro_batch : {1, 2, 4, 8, 16}) {
    Plan plan;
    plan.pipeline = 4;
    plan.sharded = 2;
    plan.sharding = Sharding::kOptimizer;
    plan.micro_batch = micro_batch;
    const Estimate estimate = practitioner_estimate(job, plan);
    seconds.push_back(estimate.time.step_seconds);
    fmt::print("U15 micro-batch {}: {:.0f} ms\n", micro_batch, 1e3 * estimate.time.step_seconds);
    bubble.push_back(estimate.time.exposed.pipeline_bubble / estimate.time.step_seconds);
  }
  EXPECT_TRUE(std::is_sorted(bubble.begin(), bubble.end()));
  const auto best = std::min_element(seconds.begin(), seconds.end());
  EXPECT_NE(best, seconds.begin());
  EXPECT_NE(best, seconds.end() - 1);
}

}  // namespace
}  // namespace trireme::planner
