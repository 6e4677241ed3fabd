// What DeepSpeed's ZeRO keeps, moves and waits for, read off its code: each case is named for what
// was wrong before.
#include <gtest/gtest.h>

#include "planner/cost/estimate.h"
#include "planner/cost/state_memory.h"
#include "planner/cost/unit_launches.h"
#include "planner/lower/lower.h"
#include "planner/plan/host_counts.h"
#include "planner/walk/step_times.h"
#include "sim/simulate.h"
#include "tests/unit/planner/small_job.h"

namespace trireme::planner {
namespace {

constexpr double kBytesOfGib = 1024.0 * 1024 * 1024;

Plan plan_of(const Job& job, Sharding sharding) {
  Plan plan;
  plan.sharding = sharding;
  plan.sharded = job.cluster.gpus;
  plan.recompute = Recompute::kFull;
  return plan;
}

Estimate estimate_of(const Job& job, Sharding sharding) {
  Estimate estimate;
  Estimator(job).estimate(plan_of(job, sharding), estimate);
  return estimate;
}

double parameters_of(const Job& job) {
  return static_cast<double>(models::parameter_count(job.model));
}

// Two layers were taken to be gathered at a time. ZeRO-3 fetches a bucket more at every module
// until stage3_max_live_parameters are there: 1e9 elements of a 7B, five of its layers; of 70B one
// layer and a fifth.
TEST(Zero, TheThirdStageIsAheadByItsBoundOfLiveParameters) {
  for (const char* model : {"llama-2-7b", "llama-2-70b"}) {
    Job job = small_job(model, "dgx-a100-80gb", "deepspeed");
    job.offload = parse_offload("optimizer,gradients,parameters");
    const auto peak = [&](std::int64_t live) {
      job.framework.prefetch_elements = live;
      return estimate_of(job, Sharding::kFull).memory.stages.at(0).phases.backward * kBytesOfGib;
    };
    EXPECT_NEAR(peak(1'400'000'000) - peak(1'000'000'000), 2 * 0.4e9, 2e6) << model;
  }
}

// An optimizer on the host was free of charge on the GPU. From 0.14.1 (#5301) to 0.16 ZeRO-1 and 2
// bring the updated fp32 weights of the rank up before they cast them: a 10B on one GPU needs three
// times its 16-bit weights (deepspeed#7182); since 0.17 (#7309) one.
TEST(Zero, WeightsFromTheHostAreCastOnTheGpuIn2024) {
  const auto step = [](const char* framework, Sharding sharding) {
    Job job = small_job("llama-2-7b", "dgx-a100-80gb", framework);
    job.offload = parse_offload("optimizer,gradients");
    return estimate_of(job, sharding).memory.stages.at(0).phases.first_optimizer_step * kBytesOfGib;
  };
  const double rank = parameters_of(small_job("llama-2-7b", "dgx-a100-80gb", "deepspeed")) / 8;
  for (const char* before : {"deepspeed@0.12", "deepspeed@0.17"}) {
    EXPECT_NEAR(step("deepspeed@0.14.1", Sharding::kGradients) - step(before, Sharding::kGradients),
                4 * rank, 1e6);
    EXPECT_NEAR(step("deepspeed@0.16", Sharding::kFull), step(before, Sharding::kFull), 1e6);
  }
}

// They also came back at the rate of pinned memory: not from 0.9 (#3097) to 0.14.0, and under the
// third stage never.
TEST(Zero, WeightsComeBackFromMemoryThatIsNotPinned) {
  const auto moved = [](const char* framework, Sharding sharding) {
    Job job = small_job("llama-2-7b", "dgx-a100-80gb", framework);
    job.offload = parse_offload("optimizer,gradients");
    return estimate_of(job, sharding).time.exposed.offload;
  };
  const double rank = parameters_of(small_job("llama-2-7b", "dgx-a100-80gb", "deepspeed")) / 8;
  const double pageable = 2 * rank / 7.5e9;
  EXPECT_NEAR(moved("deepspeed@0.12", Sharding::kGradients), pageable, 0.02);
  EXPECT_NEAR(moved("deepspeed", Sharding::kFull), pageable, 0.02);
  EXPECT_LT(moved("deepspeed", Sharding::kGradients), pageable / 2);
}

// The step of the third stage lays a sub-group's gradients together and casts them: 1e9 elements at
// most.
TEST(Zero, TheThirdStageCastsASubGroupAtATime) {
  const auto copies = [](const char* model) {
    const Job job = small_job(model, "dgx-a100-80gb", "deepspeed");
    const Estimate estimate = estimate_of(job, Sharding::kFull);
    return estimate.memory.stages.at(0).phases.first_optimizer_step * kBytesOfGib -
           2 * parameters_of(job);
  };
  // Beside 16 bytes of an eighth of the parameters, and the same of both: buckets and workspaces.
  EXPECT_NEAR(copies("llama-2-70b") - copies("llama-2-7b"), 6 * (1e9 - 6.74e9 / 8), 0.03e9);
}

// Sums that are fp32 already are laid together only, where a cast was counted beside: 4 bytes of
// each element, not 8. Under fp32 they are so whatever the framework's type of them, on the host
// too, whose buffers went by 2 bytes.
TEST(Zero, WideSumsAreLaidTogetherOnly) {
  const Job narrow = small_job("llama-2-7b", "dgx-a100-80gb", "deepspeed");
  Job wide = narrow;
  wide.framework.gradient_bytes = 4;
  Job full = narrow;
  full.precision = topologies::Precision::kFp32;
  const Plan plan = plan_of(narrow, Sharding::kFull);
  EXPECT_DOUBLE_EQ(zero_step_copies(narrow, plan, 5e8, 1), 6 * 5e8);
  for (const Job* job : {&wide, &full}) {
    EXPECT_DOUBLE_EQ(zero_step_copies(*job, plan, 5e8, 1), 4 * 5e8);
    EXPECT_DOUBLE_EQ(zero_step_copies(*job, plan, 5e9, 0.5), 4 * 0.5e9);
  }
  // 2 bytes more of sums are there at the step, 2 less of copies.
  const auto step = [](const Job& job) {
    return estimate_of(job, Sharding::kFull).memory.stages.at(0).phases.first_optimizer_step;
  };
  EXPECT_NEAR(step(wide), step(narrow), 1e-3);
  full.offload = parse_offload("optimizer,gradients");
  const double host = estimate_of(full, Sharding::kFull).memory.host_gib;
  full.framework.gradient_bytes = 4;
  EXPECT_DOUBLE_EQ(estimate_of(full, Sharding::kFull).memory.host_gib, host);
}

// What lives in the pools of ZeRO-3's own streams: both tables beside the layers of its bound, and
// a table's gradient, in 2 bytes each, whatever the bound; the bound itself is reserved at 2 bytes
// of each element.
TEST(Zero, ItsStreamsReserveTheTablesAndAGradientMore) {
  Job job = small_job("llama-2-7b", "dgx-a100-80gb", "deepspeed");
  job.offload = parse_offload("optimizer,gradients,parameters");  // the step is not the peak
  const auto stage = [&](std::int64_t live) {
    job.framework.prefetch_elements = live;
    return estimate_of(job, Sharding::kFull).memory.stages.at(0);
  };
  const double table = static_cast<double>(job.model.vocab) * 4096;  // but for the last norm
  const StageMemory less = stage(1'000'000'000);
  const StageMemory more = stage(1'400'000'000);
  for (const StageMemory* one : {&less, &more}) {
    EXPECT_NEAR((one->reserved_base - one->items.total()) * kBytesOfGib, (2 + 2 + 2) * table, 1e5);
  }
  EXPECT_NEAR((more.reserved_base - less.reserved_base) * kBytesOfGib, 2 * 0.4e9, 1e3);
}

// torchrun gives each of several ranks one thread, where all cores of the node were counted: four
// ranks of Qwen3-30B-A3B under Megatron-SWIFT took a third longer than said.
TEST(Zero, ARankOfOneThreadUpdatesAtOneCoresRate) {
  Job job = small_job("llama-2-7b", "dgx-a100-80gb", "deepspeed");
  job.offload = parse_offload("optimizer,gradients");
  const double together = estimate_of(job, Sharding::kGradients).time.exposed.optimizer;
  job.framework.host_threads = 1;
  const double alone = estimate_of(job, Sharding::kGradients).time.exposed.optimizer;
  EXPECT_NEAR(alone, 38 * parameters_of(job) / 8 / 12e9, 0.01);
  EXPECT_GT(alone, 1.5 * together);
  job.framework.host_threads = 64;  // more than the channels carry
  EXPECT_DOUBLE_EQ(estimate_of(job, Sharding::kGradients).time.exposed.optimizer, together);
}

// transformers before 5 runs 128 experts a layer one after the other, each a module that ZeRO-3
// hooks, gathers and reduces by itself: 91 s on 16 A800 were said to be 3.5. The program says what
// the closed form does.
TEST(Zero, ExpertsInALoopAreHookedOneByOne) {
  Job job = small_job("qwen3-30b-a3b", "dgx-a100-80gb", "deepspeed");
  const Plan plan = plan_of(job, Sharding::kFull);
  const auto seconds = [&] {
    TimeEstimate estimate;
    TimeModel(job).estimate(plan, estimate);
    return estimate.step_seconds;
  };
  const double grouped = seconds();
  EXPECT_EQ(looped_expert_launches(job).hooks, 0);
  job.framework = find_framework("deepspeed@0.16");
  ASSERT_TRUE(job.framework.experts_in_loop);
  const double looped = seconds();
  EXPECT_GT(looped, 8 * grouped);
  const StepProgram program = lower(job, plan);
  sim::SimulateOptions options;
  options.share_links = false;
  options.record_trace = false;
  const double simulated =
      to_seconds(sim::simulate(program, time_ops(job, program), job.cluster, options).step).value;
  EXPECT_NEAR(looped / simulated, 1, 0.08);
}

// Layers cut up the embedding's segment before the head is gathered, so that without expandable
// segments both tables lie in the pool of ZeRO-3's gathers: one was counted, and 72B under LoRA on
// four A100 was 12 % low. A gradient of the head that no block of a short loss holds is reserved
// beside it, as are the fp32 copies of the step.
TEST(Zero, LargeTensorsHaveSegmentsOfTheirOwn) {
  Job job = small_job("llama-3.1-8b", "dgx-a100-80gb", "deepspeed");
  job.sequence = 256;
  const auto reserved = [&](Sharding sharding) {
    job.framework.expandable_segments = false;
    const double plain = estimate_of(job, sharding).memory.stages.at(0).reserved_base;
    job.framework.expandable_segments = true;
    const double joined = estimate_of(job, sharding).memory.stages.at(0).reserved_base;
    return (plain - joined) * kBytesOfGib;
  };
  const double table = 2 * 128256.0 * 4096;
  const double part = parameters_of(job) / 8;
  job.training.rank = 8;
  EXPECT_NEAR(reserved(Sharding::kFull), table, 0.02 * table);
  job.training.rank = 0;
  // Beside a table and the head's gradient, what the step copies of 1e9 elements, less what was
  // more than the step's own moment.
  const double copies = 6 * std::min(part, zero_sub_group(job));
  EXPECT_GT(reserved(Sharding::kFull), table + copies);
  EXPECT_LT(reserved(Sharding::kFull), 2 * table + copies);
}

// On its way to an optimizer on the host DeepSpeed takes each gradient's norm in fp64: eight bytes
// of each element of the head's, when all is still kept, were not counted; the third stage does so
// of a rank's part.
TEST(Zero, AGradientsNormIsTakenInFp64) {
  const auto peak = [](Sharding sharding, std::int64_t vocab) {
    Job job = small_job("llama-3.1-8b", "dgx-a100-80gb", "deepspeed");
    job.sequence = 64;
    job.model.vocab = vocab;
    job.framework.prefetch_elements = 0;
    job.offload = parse_offload("optimizer,gradients,parameters");
    job.offload.parameters =
        sharding == Sharding::kFull ? job.offload.parameters : OffloadTo::kNone;
    return estimate_of(job, sharding).memory.stages.at(0).phases.backward * kBytesOfGib;
  };
  const double more = 4096 * 64000.0;
  const double second = peak(Sharding::kGradients, 128000) - peak(Sharding::kGradients, 64000);
  EXPECT_NEAR(second / more, 2 + 2 + 2 + 8, 0.5);  // both tables, the gradient and its copy
}

// A second bucket was missing where reduction runs beside backward, both over one rank, and stage 2
// had its own at the loss: ZeRO-1 on two H200 was 6 % low for it, AutoTP and the pipeline, whose
// files ask for the first stage, 11 and 6 %.
TEST(Zero, BucketsComeWithTheFirstGradientAndGoWithTheReduction) {
  Job job = small_job("llama-3.1-8b", "dgx-a100-80gb", "deepspeed");
  const auto buckets = [&](Plan plan, const char* version) {
    job.framework = find_framework(version);
    const auto peak = [&] {
      Estimate estimate;
      Estimator(job).estimate(plan, estimate);
      return estimate.memory.stages.at(0).phases.backward * kBytesOfGib;
    };
    const double before = peak();
    job.framework.bucket_elements += 100'000'000;
    return (peak() - before) / 2e8;
  };
  const auto plan = [&](Sharding sharding, std::int64_t micro_batches) {
    Plan made = plan_of(job, sharding);
    made.micro_batches = micro_batches;
    made.micro_batch = 4;  // the loss is the fullest moment
    return made;
  };
  EXPECT_NEAR(buckets(plan(Sharding::kOptimizer, 2), "deepspeed"), 2, 0.01);
  EXPECT_NEAR(buckets(plan(Sharding::kGradients, 2), "deepspeed"), 0, 0.01);
  EXPECT_NEAR(buckets(plan(Sharding::kGradients, 2), "deepspeed@0.16"), 2, 0.01);
  EXPECT_NEAR(buckets(plan(Sharding::kFull, 2), "deepspeed"), 1, 0.01);
  Plan alone = plan(Sharding::kNone, 2);
  alone.sharded = 1;
  alone.tensor = 8;
  EXPECT_NEAR(buckets(alone, "deepspeed"), 2, 0.01);
}

// Its host was counted in runs with fp32 sums, which hooks add up in Python. Sums of the model's
// type that wait for the step's reduction are autograd's own, a launch a tensor.
TEST(Zero, SumsOfTheModelsTypeAreAutogradsOwn) {
  Job job = small_job("llama-3.1-8b", "dgx-a100-80gb", "deepspeed");
  const HostCounts* counts = host_counts_of(job.framework);
  ASSERT_NE(counts, nullptr);
  const double hooked = micro_batch_host(job, *counts, 1, true);
  const double tensors = hooked / counts->micro_batch_tensor.plain;
  EXPECT_DOUBLE_EQ(tensors, 9);  // seven matrices and two norms
  EXPECT_DOUBLE_EQ(micro_batch_host(job, *counts, 1, false), tensors / kPlainLaunch);
  job.framework.gradient_bytes = 4;
  EXPECT_DOUBLE_EQ(micro_batch_host(job, *counts, 1, false), hooked);
}

}  // namespace
}  // namespace trireme::planner
