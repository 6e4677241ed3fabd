// Cases from people who train: what they saw, and what a planner should have told them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "models/presets.h"
#include "planner/cost/device_memory.h"
#include "planner/cost/memory.h"

namespace trireme::planner {
namespace {

constexpr double kGigabyte = 1e9;

Job job_of(models::Transformer model, const char* cluster, const char* framework,
           std::int64_t sequence) {
  Job job;
  job.model = std::move(model);
  job.cluster = topologies::load_cluster(cluster);
  job.framework = find_framework(framework);
  job.sequence = sequence;
  return job;
}

MemoryEstimate estimate_of(const Job& job, const Plan& plan) {
  MemoryModel model(job);
  MemoryEstimate estimate;
  model.estimate(plan, estimate);
  return estimate;
}

Plan plan_of(std::int64_t tensor, std::int64_t pipeline, std::int64_t data_parallel) {
  Plan plan;
  plan.tensor = tensor;
  plan.pipeline = pipeline;
  plan.sharded = data_parallel;
  plan.sharding = data_parallel > 1 ? Sharding::kOptimizer : Sharding::kNone;
  plan.sequence_parallel = tensor > 1;
  plan.micro_batches = 4 * pipeline;
  return plan;
}

double states(const MemoryEstimate& estimate, std::size_t stage) {
  const MemoryItems& items = estimate.stages[stage].items;
  return items.parameters + items.gradients + items.optimizer;
}

// M01, M02: Llama 3 70B, fp8, 32 H100: 58.8 GB allocated and yet out of memory by fragmentation;
// moving to PP8 or TP8 saves memory, more virtual chunks do not.
TEST(PractitionerMemory, FragmentationIsARiskAndMovesAreOrdered) {
  Job job = job_of(models::load_model("llama-3.1-70b"), "dgx-h100x4", "megatron", 4096);
  job.precision = topologies::Precision::kFp8;
  apply_setting(job.framework, "fp8_parameters", "true");
  apply_setting(job.framework, "grad_dtype", "bf16");
  Plan base = plan_of(4, 4, 2);
  base.virtual_pipeline = 5;
  base.schedule = Schedule::kInterleaved;
  base.micro_batches = 16;
  const MemoryEstimate first = estimate_of(job, base);
  EXPECT_NEAR(first.allocated_gib, 58.8, 0.10 * 58.8);
  EXPECT_EQ(first.fit, Fit::kAtRisk);

  Plan deeper = base;
  deeper.pipeline = 8;
  deeper.sharded = 1;
  deeper.sharding = Sharding::kNone;
  Plan wider = base;
  wider.tensor = 8;
  wider.sharded = 1;
  wider.sharding = Sharding::kNone;
  Plan more_chunks = base;
  more_chunks.virtual_pipeline = 10;
  const double pp8 = estimate_of(job, deeper).allocated_gib;
  const double tp8 = estimate_of(job, wider).allocated_gib;
  EXPECT_LT(pp8, first.allocated_gib);
  EXPECT_LT(tp8, pp8);
  EXPECT_GE(estimate_of(job, more_chunks).allocated_gib, 0.97 * first.allocated_gib);
}

// M07: Llama 3 70B on 16 GPUs of 80 GB: TP x PP = 16 leaves nobody to share the optimizer: 73.9 GiB
// of states.
TEST(PractitionerMemory, SeventyBillionOnSixteenGpusDoesNotFit) {
  const Job job = job_of(models::load_model("llama-3.1-70b"), "dgx-h100x2", "megatron", 512);
  Plan plan = plan_of(8, 2, 1);
  plan.recompute = Recompute::kFull;
  const MemoryEstimate estimate = estimate_of(job, plan);
  EXPECT_NEAR(states(estimate, 0), 73.9, 0.02 * 73.9);
  // States alone are 97 % of what the allocator can have beside five communicators.
  EXPECT_GT(states(estimate, 0), 0.96 * estimate.capacity_gib);
  EXPECT_EQ(estimate.fit, Fit::kNo);
  // Twice the GPUs are enough.
  Job larger = job;
  larger.cluster = topologies::load_cluster("dgx-h100x4");
  Plan halved = plan_of(8, 2, 2);
  halved.recompute = Recompute::kFull;
  EXPECT_NE(estimate_of(larger, halved).fit, Fit::kNo);
}

models::Transformer falcon_40b() {
  models::Transformer model;
  model.name = "falcon-40b";
  model.layers = 60;
  model.hidden = 8192;
  model.heads = 128;
  model.kv_heads = 8;
  model.head_dim = 64;
  model.ffn = 32768;
  model.vocab = 65024;
  model.max_sequence = 2048;
  model.norm = models::Norm::kLayerNorm;
  model.gated_mlp = false;
  model.parallel_block = true;
  model.tied_embeddings = true;
  return model;
}

// M09: Falcon 40B at TP8: 50 GB after loading, out of memory in the first batch: 10 bytes a
// parameter become 18 with Adam's moments.
TEST(PractitionerMemory, MomentsComeAfterLoading) {
  Plan plan = plan_of(8, 1, 1);
  plan.sequence_parallel = false;
  const MemoryEstimate estimate =
      estimate_of(job_of(falcon_40b(), "dgx-a100-80gb", "megatron", 2048), plan);
  const MemoryPhases& phases = estimate.stages[0].phases;
  EXPECT_NEAR(phases.load * kGiB / kGigabyte, 52, 0.03 * 52);
  EXPECT_NEAR(phases.first_optimizer_step, 87.6, 0.03 * 87.6);
  EXPECT_EQ(estimate.fit, Fit::kNo);
}

// M11: Llama 2 70B at TP8 PP2: 30.8 GiB of states over 8 data-parallel ranks, 25.7 over 48, 73.9
// without a distributed optimizer; sequence parallelism takes the activations from 34 to 10 GiB.
TEST(PractitionerMemory, WhichSwitchMakesTwoStagesFit) {
  const Job job = job_of(models::load_model("llama-2-70b"), "dgx-h100x16", "megatron", 4096);
  // Half of the model and one embedding: 69 / 2 + 0.13 billion.
  EXPECT_NEAR(states(estimate_of(job, plan_of(8, 2, 8)), 0), 30.8, 0.04 * 30.8);
  EXPECT_NEAR(states(estimate_of(job, plan_of(8, 2, 48)), 0), 25.7, 0.04 * 25.7);
  Plan replicated = plan_of(8, 2, 8);
  replicated.replicas = 8;
  replicated.sharded = 1;
  replicated.sharding = Sharding::kNone;
  EXPECT_NEAR(states(estimate_of(job, replicated), 0), 73.9, 0.04 * 73.9);
  EXPECT_EQ(estimate_of(job, replicated).fit, Fit::kNo);
  Plan whole = plan_of(8, 2, 8);
  const double with = estimate_of(job, whole).stages[0].items.activations;
  whole.sequence_parallel = false;
  const double without = estimate_of(job, whole).stages[0].items.activations;
  fmt::print("M11 activations: {:.1f} GiB with sequence parallelism, {:.1f} without\n", with,
             without);
  EXPECT_NEAR(with, 10, 2);
  EXPECT_NEAR(without, 28, 7);
  EXPECT_EQ(estimate_of(job, plan_of(8, 2, 8)).fit, Fit::kFits);
  // The reporter distributes saved activations, which excludes sequence parallelism; at the 8,192
  // tokens of a Llama 3 that is out of memory, as reported.
  Job third = job_of(models::load_model("llama-3-70b"), "dgx-h100x16", "megatron", 8192);
  EXPECT_EQ(estimate_of(third, whole).fit, Fit::kNo);
}

models::Transformer gpt2_774m() {
  models::Transformer model = models::load_model("gpt2");
  model.name = "gpt2-774m";
  model.layers = 36;
  model.hidden = 1280;
  model.heads = 20;
  model.kv_heads = 20;
  model.head_dim = 64;
  model.ffn = 5120;
  return model;
}

// M13: GPT-2 774M on one V100 of 32 GB without flash attention: 28.8 GiB allocated when 786 MiB
// more were refused. A tool that forgets the loss and the score matrices said 23.3 GB.
TEST(PractitionerMemory, LogitsAndScoresCount) {
  Job job = job_of(gpt2_774m(), "dgx1-v100", "megatron", 1024);
  job.cluster = topologies::narrowed(job.cluster, 1);
  job.precision = topologies::Precision::kFp16;
  job.attention = models::AttentionKernel::kUnfused;
  apply_setting(job.framework, "implementation", "local");
  apply_setting(job.framework, "dropout", "0.1");
  Plan plan;
  plan.micro_batch = 4;
  const MemoryEstimate estimate = estimate_of(job, plan);
  fmt::print("M13: {:.2f} GiB, fit {}\n", estimate.allocated_gib, static_cast<int>(estimate.fit));
  EXPECT_GT(estimate.allocated_gib, 28.0);
  EXPECT_NE(estimate.fit, Fit::kFits);
}

// M15: Llama 2 7B, sequences of 2048, on eight H800: 49.8 GB at DP4 PP2 with micro-batches of
// 2, 28.8 GB at TP8 with micro-batches of 4.
TEST(PractitionerMemory, TwoLayoutsOfLlama7B) {
  Job job = job_of(models::load_model("llama-2-7b"), "hgx-h800", "megatron", 2048);
  apply_setting(job.framework, "implementation", "local");
  Plan pipelined = plan_of(1, 2, 4);
  pipelined.micro_batch = 2;
  pipelined.micro_batches = 256;
  Plan tensor = plan_of(8, 1, 1);
  tensor.sequence_parallel = false;
  tensor.micro_batch = 4;
  tensor.micro_batches = 32;
  const double first = estimate_of(job, pipelined).allocated_gib * kGiB / kGigabyte;
  const double second = estimate_of(job, tensor).allocated_gib * kGiB / kGigabyte;
  fmt::print("M15: {:.2f} GB (49.8), {:.2f} GB (28.8)\n", first, second);
  EXPECT_NEAR(first, 49.8, 0.03 * 49.8);
  EXPECT_NEAR(second, 28.8, 0.03 * 28.8);
}

// M17: eight layers split 1, 2, 2, 3: the heaviest stage is the last, not layers / stages.
TEST(PractitionerMemory, TheHeaviestStageComesFromTheTrueSplit) {
  models::Transformer model = models::load_model("llama-3.2-1b");
  model.layers = 8;
  model.tied_embeddings = false;
  const Job job = job_of(model, "dgx-h100", "megatron", 1024);
  Plan plan = plan_of(1, 4, 2);
  plan.stage_layers = {1, 2, 2, 3};
  const MemoryEstimate estimate = estimate_of(job, plan);
  const double layer = static_cast<double>(models::layer_parameter_count(model, 0)) * 2 / kGiB;
  EXPECT_NEAR(estimate.stages[1].items.parameters, 2 * layer, 1e-3);
  const double head = estimate.stages[3].items.parameters - 3 * layer;
  EXPECT_NEAR(head, 128256.0 * 2048 * 2 / kGiB, 0.01);
  EXPECT_EQ(estimate.peak_stage, 3U);
}

// M23: equal layers, PP 2 to 8: the first GPU holds the most, since it holds p micro-batches in
// flight.
TEST(PractitionerMemory, TheFirstStageHoldsTheMostMicroBatches) {
  models::Transformer model = gpt2_774m();
  model.layers = 2048;
  model.hidden = model.ffn = 256;
  model.heads = model.kv_heads = 4;
  const Job job = job_of(model, "dgx-a100-80gb", "megatron", 1024);
  for (const std::int64_t stages : {2, 4, 8}) {
    const MemoryEstimate estimate = estimate_of(job, plan_of(1, stages, 1));
    for (std::size_t stage = 1; stage + 1 < estimate.stages.size(); ++stage) {
      EXPECT_GT(estimate.stages[stage - 1].items.activations,
                1.1 * estimate.stages[stage].items.activations);
    }
    EXPECT_NEAR(estimate.stages[0].items.activations / static_cast<double>(stages),
                estimate.stages.back().items.activations,
                0.2 * estimate.stages.back().items.activations);
  }
}

// M26: Llama 3.3 70B fine-tuned with bf16 states at PP8 DP4, micro-batches of 4 x 1024: states
// of 17.5 GB; tuned on 141 GB cards, too much for 80 GB ones.
TEST(PractitionerMemory, ARecipeForALargerCard) {
  Job job = job_of(models::load_model("llama-3.1-70b"), "hgx-h200x4", "fsdp2", 1024);
  apply_setting(job.framework, "parameter_dtype", "bf16");
  apply_setting(job.framework, "optimizer_dtype", "bf16");
  Plan plan = plan_of(1, 8, 4);
  plan.sharding = Sharding::kFull;
  plan.micro_batch = 4;
  plan.micro_batches = 8;
  plan.recompute = Recompute::kSelective;
  plan.recompute_modules = kTorchPerOp;
  const MemoryEstimate large = estimate_of(job, plan);
  job.cluster = topologies::load_cluster("dgx-h100x4");
  const MemoryEstimate small = estimate_of(job, plan);
  fmt::print("M26: {:.1f} GiB allocated, {:.1f} GiB on the middle stage\n", small.allocated_gib,
             small.stages[3].items.total());
  EXPECT_NEAR(70.55e9 / 8 * 8 / 4 / kGigabyte, 17.6, 0.1);
  EXPECT_EQ(large.fit, Fit::kFits);
  EXPECT_NE(small.fit, Fit::kFits);
}

// M29: 544 MB for a communicator of two ranks, 688 MB for a larger one: memory follows from the
// list of groups.
TEST(PractitionerMemory, CommunicatorsFollowFromTheGroups) {
  const Job job = job_of(models::load_model("llama-3.1-8b"), "dgx-a100-80gb", "megatron", 2048);
  const double mebi = 1e6 / kGiB;
  EXPECT_DOUBLE_EQ(communicator_gib(job, Plan{}), 0);
  // Each group of the plan, and Megatron's own communicator of all ranks.
  EXPECT_NEAR(communicator_gib(job, plan_of(2, 1, 1)), (544 + 544) * mebi, 1e-9);
  EXPECT_NEAR(communicator_gib(job, plan_of(4, 1, 1)), (688 + 688) * mebi, 1e-9);
  EXPECT_NEAR(communicator_gib(job, plan_of(4, 1, 2)), (688 + 544 + 688) * mebi, 1e-9);
  const MemoryEstimate estimate = estimate_of(job, plan_of(4, 1, 2));
  EXPECT_NEAR(estimate.device_gib - estimate.reserved_gib,
              job.framework.context_gib + (688 + 544 + 688) * mebi, 1e-9);
}

// M01's remedy: with expandable segments the same run passes at about what it allocates.
TEST(PractitionerMemory, ExpandableSegmentsAreTheFirstRemedy) {
  Job job = job_of(models::load_model("llama-3.1-8b"), "dgx-h100", "megatron", 8192);
  Plan plan = plan_of(2, 4, 1);
  plan.virtual_pipeline = 4;
  plan.schedule = Schedule::kInterleaved;
  const MemoryEstimate before = estimate_of(job, plan);
  apply_setting(job.framework, "expandable_segments", "true");
  const MemoryEstimate after = estimate_of(job, plan);
  EXPECT_DOUBLE_EQ(after.allocated_gib, before.allocated_gib);
  EXPECT_LT(after.reserved_high_gib, before.reserved_high_gib);
  EXPECT_LT(after.reserved_gib, before.reserved_gib);
}

// FSDP's bands began 2 % below what tensors themselves take.
TEST(PractitionerMemory, ReservedIsNeverLessThanAllocated) {
  for (const std::string& framework : framework_names()) {
    const Job job = job_of(models::load_model("llama-3.1-8b"), "dgx-h100", framework.c_str(), 4096);
    Plan plan = plan_of(1, 1, 8);
    plan.sharding =
        job.framework.sharder == Sharder::kBuffers ? Sharding::kOptimizer : Sharding::kFull;
    const MemoryEstimate estimate = estimate_of(job, plan);
    // But for the prediction's own error, which the bottom of the band leaves room for.
    EXPECT_GE(estimate.reserved_low_gib, 0.88 * estimate.allocated_gib) << framework;
    EXPECT_GE(estimate.reserved_gib, estimate.allocated_gib) << framework;
    EXPECT_GE(estimate.reserved_gib, estimate.reserved_low_gib) << framework;
    EXPECT_GE(estimate.reserved_high_gib, estimate.reserved_gib) << framework;
  }
}

}  // namespace
}  // namespace trireme::planner
