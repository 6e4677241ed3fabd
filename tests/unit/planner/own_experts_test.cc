// What the runtime of this project queues for routed experts and for attention by pieces, as the
// closed form and the program price it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "models/presets.h"
#include "models/work.h"
#include "planner/cost/context_pieces.h"
#include "planner/cost/estimate.h"
#include "planner/cost/product_time.h"
#include "planner/lower/lower.h"
#include "planner/plan/shape.h"
#include "planner/walk/work_times.h"
#include "topologies/op_cost.h"

namespace trireme::planner {
namespace {

Job job_of(const char* model) {
  Job job;
  job.model = models::load_model(model);
  job.cluster = topologies::narrowed(topologies::load_cluster("hgx-h200x1"), 2);
  job.framework = find_framework("trireme");
  job.profile = topologies::shipped_profile();
  job.sequence = 4096;
  job.global_batch = 8;
  return job;
}

Plan expert_plan() {
  Plan plan;
  plan.replicas = 2;
  plan.expert = 2;
  plan.micro_batches = 4;
  return plan;
}

double seconds_of(const Job& job, const ProductKind& kind) {
  const topologies::OpCost cost(job.cluster, job.profile);
  return product_seconds(job, cost, behaviour_fit(job), {1536, 2048, 512, 16}, kind);
}

// An expert's gradient of 512 rows reads and writes 25 MB in fp32 beside 3.2 GFLOP: 16 to 40 % of
// those products' time was missing on two H200.
TEST(OwnExperts, GradientsOfFewRowsTakeTheTimeOfTheirSums) {
  Job job = job_of("qwen3-30b-a3b");
  const double grouped_written = seconds_of(job, {ProductWidth::kOfLayer, true, false});
  EXPECT_GT(seconds_of(job, {ProductWidth::kOfLayer, true, true}) / grouped_written, 1.2);
  job.cluster = topologies::load_cluster("dgx-a100-80gbx1");  // one by one
  const double plain = seconds_of(job, {});
  const double written = seconds_of(job, {ProductWidth::kOfLayer, true, false});
  const double added = seconds_of(job, {ProductWidth::kOfLayer, true, true});
  EXPECT_GT(written, plain);
  EXPECT_GT(added / plain, 1.2);
  EXPECT_NEAR(added - written, 2 * (written - plain), 1e-9);  // 8, 4 and 2 bytes an element
  // PyTorch's gradients are in 16 bits, and one grouped product's tiles cover each other's writes.
  Job other = job;
  other.framework = find_framework("fsdp2");
  EXPECT_EQ(seconds_of(other, {ProductWidth::kOfLayer, true, true}),
            seconds_of(other, {ProductWidth::kOfLayer, true, false}));
}

TEST(OwnExperts, AreOneLaunchOnHopper) {
  Job job = job_of("qwen3-30b-a3b");
  EXPECT_EQ(own_expert_launches(job, 128), 2);
  job.precision = topologies::Precision::kFp8;
  EXPECT_EQ(own_expert_launches(job, 128), 128);
  job.precision = topologies::Precision::kBf16;
  for (const char* cluster : {"dgx-a100-80gbx1", "dgx-b200x1"}) {
    job.cluster = topologies::load_cluster(cluster);
    EXPECT_EQ(own_expert_launches(job, 128), 128) << cluster;
  }
}

// Measured on one H200 (30 November 2026): experts with half to half as many again rows. Without a
// table of the host.
TEST(OwnExperts, GroupedProductsTakeTheTimeOfTheirTiles) {
  Job job = job_of("qwen3-30b-a3b");
  job.profile = topologies::shipped_profile();
  const topologies::OpCost cost(job.cluster, job.profile);
  struct Measured {
    std::int64_t experts, m, n, k;
    double ms;
  };
  for (const Measured& one : {Measured{128, 63, 1536, 2048, 0.218},
                              {128, 255, 1536, 2048, 0.435},
                              {128, 1020, 2048, 768, 0.770},
                              {64, 508, 2048, 2048, 0.505},
                              {32, 1008, 4096, 7168, 2.938},
                              {8, 3840, 28672, 4096, 11.24}}) {
    const double ms = 1e3 * product_seconds(job, cost, behaviour_fit(job),
                                            {one.m, one.n, one.k, one.experts}, {});
    EXPECT_NEAR(ms / one.ms, 1, 0.13) << one.experts << " experts of " << one.m;
  }
}

// Steps of one H200 with experts in one launch (30 November 2026, docs/gpu_measurements.md), which
// no constant comes from.
TEST(OwnExperts, StepsOfOneGpuArePredicted) {
  struct Measured {
    const char* model;
    std::int64_t micro_batch, micro_batches;
    double seconds;
  };
  double error = 0;
  const std::vector<Measured> steps = {
      {"qwen3-30b-4-layers", 1, 1, 0.0553}, {"qwen3-30b-4-layers", 4, 1, 0.1384},
      {"qwen3-30b-4-layers", 1, 4, 0.1532}, {"olmoe-8-layers", 1, 1, 0.0671},
      {"olmoe-8-layers", 4, 1, 0.1702},     {"olmoe-8-layers", 1, 4, 0.1916},
      {"experts-2b", 1, 4, 0.1314}};
  for (const Measured& step : steps) {
    Job job = job_of(
        (TRIREME_SOURCE_DIR "/tests/gpu/models/" + std::string(step.model) + ".json").c_str());
    job.cluster = topologies::narrowed(std::move(job.cluster), 1);
    job.global_batch = step.micro_batch * step.micro_batches;
    Plan plan;
    plan.micro_batch = step.micro_batch;
    plan.micro_batches = step.micro_batches;
    Estimate found;
    Estimator(job).estimate(plan, found);
    const double one = found.time.step_seconds / step.seconds - 1;
    EXPECT_LT(std::abs(one), 0.07) << step.model << ", " << found.time.step_seconds;
    error += std::abs(one) / static_cast<double>(steps.size());
  }
  EXPECT_LT(error, 0.04);
}

Bytes moved_by(const models::PassWork& work, Kernel kernel) {
  Bytes sum;
  for (const models::MemoryBoundWork& pass : work.memory_bound) {
    sum += pass.own == kernel ? pass.traffic : Bytes(0);
  }
  return sum;
}

Bytes moved_by(const Job& job, const Plan& plan, Kernel kernel, Phase phase) {
  LowerOptions options;
  options.executable = true;
  const StepProgram program = lower(job, plan, options);
  const Program& role = program.roles.front();
  Bytes sum;
  for (const Op& op : role.ops) {
    const auto* compute = std::get_if<Compute>(&op.kind);
    if (compute != nullptr && op.origin.phase == phase && op.origin.layer == 0 &&
        op.origin.micro_batch == 0 && role.works[compute->work].kernel == kernel) {
      sum += role.works[compute->work].traffic;
    }
  }
  return sum;
}

// The closed form moved a row in and out for each of a token's experts, read none of the token's
// rows once, and had no kernel for the order of rows.
TEST(OwnExperts, MovesOfRowsAreThoseOfTheProgram) {
  const Job job = job_of("qwen3-30b-a3b");
  const Plan plan = expert_plan();
  const models::LayerWork work =
      models::layer_work(job.model, 0, shard_of(job, plan, job.sequence), kernels_of(job));
  const auto expect_near = [](Bytes closed, Bytes program) {
    ASSERT_GT(program.value, 0);
    EXPECT_NEAR(static_cast<double>(closed.value) / static_cast<double>(program.value), 1, 0.01);
  };
  for (const Kernel kernel : {Kernel::kExpertPlaces, Kernel::kPermuteRows, Kernel::kCombineRows,
                              Kernel::kRegroupRows, Kernel::kSwigluForward}) {
    expect_near(moved_by(work.forward, kernel), moved_by(job, plan, kernel, Phase::kForward));
  }
  for (const Kernel kernel : {Kernel::kCombineRows, Kernel::kCombineBackward, Kernel::kRegroupRows,
                              Kernel::kSwigluBackward}) {
    expect_near(moved_by(work.input_gradient, kernel),
                moved_by(job, plan, kernel, Phase::kBackward));
  }
}

// The host reads how many rows come before it can queue their exchange. What was issued behind it
// could not keep the GPU busy until then: 3 to 5 % of steps of two H200 had no op under way.
TEST(OwnExperts, TheSharedExpertIsQueuedBeforeTheHostWaitsForCounts) {
  const Job job = job_of("deepseek-v2-lite");
  LowerOptions options;
  options.executable = true;
  const StepProgram program = lower(job, expert_plan(), options);
  const Program& role = program.roles.front();
  const auto first = [&](const std::string& name) {
    const auto found = std::find_if(role.ops.begin(), role.ops.end(), [&](const Op& op) {
      return op.origin.layer == 1 && role.names[op.name] == name;
    });
    EXPECT_NE(found, role.ops.end()) << name;
    return found - role.ops.begin();
  };
  EXPECT_LT(first("expert_counts"), first("shared_up"));
  EXPECT_LT(first("shared_activation"), first("dispatch"));
}

// Two ranks share 4096 tokens in chunks of 1024; 32 heads of 128, 4 of keys.
TEST(ContextPieces, CountsWhatTheRuntimeQueues) {
  const ContextShape shape{1, 2048, 2, 32, 4, 128};
  const ContextPieces forward = context_pieces(shape, false);
  EXPECT_EQ(forward.kernels, 5);  // four attentions for one, and a merge for each chunk
  EXPECT_EQ(forward.traffic.value, 2 * 3 * 2048 * 4096);
  const ContextPieces backward = context_pieces(shape, true);
  // Three attentions more, two sums a piece, two clearings.
  EXPECT_EQ(backward.kernels, 3 * 3 + 4 * 2 + 2);
  // Keys of 1024 wide: own 1024 twice, 1024 and 2048 before; gradients of queries by two pieces.
  const std::int64_t added = 3 * (2 * 2048 * 4096 + 5 * 1024 * 1024);
  const std::int64_t cleared = 2048 * (4096 + 1024) + 4096 * 1024;
  EXPECT_EQ(backward.traffic.value, 2 * (added + cleared));
}

// Attention of shared sequences was priced as one kernel: 28 % too fast for chunks of 1024 tokens
// on two H200.
TEST(ContextPieces, AreInTheTimeOfTheProgramsOp) {
  const Job job = job_of("llama-3.2-1b");
  const topologies::OpCost cost(job.cluster, job.profile);
  const BehaviourFit fit = behaviour_fit(job);
  const WorkTimer timer(job, cost, fit);
  const Work whole{Kernel::kAttentionForward, {1, 4096, 16, 4, 64, 0, 64}, Flop(0), Bytes(0)};
  const Work shared{
      Kernel::kContextAttentionForward, {1, 4096, 32, 8, 64, 0, 0, 2}, Flop(0), Bytes(0)};
  EXPECT_GT(timer.time(shared, WorkPlace::kLayer).value,
            timer.time(whole, WorkPlace::kLayer).value);
  EXPECT_EQ(timer.launches(whole), 1);
  EXPECT_EQ(timer.launches(shared), 6);
}

}  // namespace
}  // namespace trireme::planner
