// The layouts that authors published for models whose depth divides badly: each is in the space of
// the search, is estimated, and its place among all sets of degrees is printed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "models/presets.h"
#include "planner/search/search.h"
#include "planner/search/switched_plan.h"
#include "topologies/cluster.h"

namespace trireme::planner {
namespace {

// Sources: NVIDIA's performance pages and recipes (Megatron-Bridge performance-summary,
// recipes/glm/glm45.py).
struct Published {
  const char *model, *cluster;
  std::int64_t batch, sequence;
  std::int64_t tensor, pipeline, virtual_pipeline, context, expert, micro_batch;
  topologies::Precision precision = topologies::Precision::kFp8;
  const char* framework = "megatron";
  std::int64_t gpus = 0;  // 0: all
  double most = 0;        // of the best's time; 0: only printed
};

Job job_of(const Published& row) {
  Job job;
  job.model = models::load_model(row.model);
  job.cluster = topologies::load_cluster(row.cluster);
  if (row.gpus > 0) {
    job.cluster = topologies::narrowed(job.cluster, row.gpus);
  }
  job.framework = find_framework(row.framework);
  job.profile = topologies::shipped_profile();
  job.sequence = row.sequence;
  job.global_batch = row.batch;
  job.precision = row.precision;
  return job;
}

std::vector<Constraint> constraints_of(const Published& row) {
  const auto equal = [](ConstraintAxis axis, std::int64_t number) {
    return Constraint{axis, Comparison::kEqual, number};
  };
  return {equal(ConstraintAxis::kTensor, row.tensor),
          equal(ConstraintAxis::kPipeline, row.pipeline),
          equal(ConstraintAxis::kVirtual, row.virtual_pipeline),
          equal(ConstraintAxis::kContext, row.context),
          equal(ConstraintAxis::kExpert, row.expert),
          equal(ConstraintAxis::kMicroBatch, row.micro_batch)};
}

class PublishedLayouts : public testing::TestWithParam<Published> {};

TEST_P(PublishedLayouts, AreInTheSpaceAndEstimated) {
  const Published& row = GetParam();
  const Job job = job_of(row);
  SearchOptions options;
  options.constraints = constraints_of(row);
  const SearchResult theirs = search(job, options);
  EXPECT_GT(theirs.space, 0);
  const Estimate* own = theirs.best                     ? &*theirs.best
                        : theirs.nearest_misses.empty() ? nullptr
                                                        : &theirs.nearest_misses.front();
  ASSERT_NE(own, nullptr) << row.model << " on " << row.cluster;
  options.constraints.clear();
  // Without being asked for its number of chunks, the search offers it too.
  Space space;
  enumerate(job, {}, {}, space);
  EXPECT_TRUE(std::ranges::any_of(space.nodes, [&](const SpaceNode& node) {
    const Plan& plan = node.plan;
    return plan.tensor == row.tensor && plan.pipeline == row.pipeline &&
           plan.virtual_pipeline == row.virtual_pipeline && plan.context == row.context &&
           plan.expert == row.expert && plan.micro_batch == row.micro_batch;
  })) << row.model;
  options.alternatives = 1'000'000;
  const SearchResult all = search(job, options);
  ASSERT_TRUE(all.best.has_value());
  const double seconds = own->time.step_seconds;
  const auto faster = [&](const Estimate& one) { return one.time.step_seconds < seconds; };
  const auto rank = 1 + (faster(*all.best) ? 1 : 0) +
                    std::count_if(all.alternatives.begin(), all.alternatives.end(), faster);
  fmt::print(
      "{} on {}: {} {:.2f} s ({}), {:+.1f} % of the best {}, rank {} of {} sets of degrees\n",
      row.model, row.cluster, short_form(own->plan), seconds,
      own->memory.fit == Fit::kNo ? "does not fit" : "fits or at risk",
      100 * (seconds / all.best->time.step_seconds - 1), short_form(all.best->plan), rank,
      1 + all.alternatives.size());
  if (row.most > 0) {
    EXPECT_LE(seconds, row.most * all.best->time.step_seconds);
  }
}

constexpr auto kBf16 = topologies::Precision::kBf16;
constexpr auto kFp8 = topologies::Precision::kFp8;
constexpr const char* kBridge = "megatron-bridge@26.08";  // whose settings the authors ran with

INSTANTIATE_TEST_SUITE_P(
    Rows, PublishedLayouts,
    testing::Values(
        Published{"deepseek-v3", "dgx-h100x128", 8192, 4096, 2, 8, 4, 1, 64, 1, kFp8, kBridge},
        Published{"deepseek-v3", "dgx-b200x32", 2048, 4096, 1, 8, 2, 1, 32, 1, kFp8, kBridge},
        Published{"deepseek-v3", "dgx-b200x32", 2048, 4096, 1, 16, 1, 1, 8, 1, kFp8, kBridge, 0,
                  1.1},
        // Racks: experts over 64 ranks of one NVLink domain.
        Published{"deepseek-v3", "gb200-nvl72x4", 4096, 4096, 1, 4, 4, 1, 64, 1, kFp8, kBridge, 256,
                  1.2},
        Published{"kimi-k2", "gb300-nvl72x4", 4096, 4096, 1, 4, 4, 1, 64, 2, kFp8, kBridge, 256,
                  1.2},
        Published{"llama-3.1-405b", "dgx-h100x128", 512, 8192, 8, 8, 8, 2, 1, 1, kFp8},
        Published{"llama-3.1-405b", "dgx-b200x32", 1536, 8192, 4, 16, 8, 1, 1, 1, kFp8},
        Published{"qwen3-235b-a22b", "dgx-h100x32", 8192, 4096, 2, 8, 4, 1, 32, 1, kFp8, kBridge},
        Published{"qwen3-235b-a22b", "dgx-b200x16", 3072, 4096, 2, 4, 12, 1, 16, 3, kFp8, kBridge},
        Published{"glm-4.5-air", "dgx-h100x32", 2048, 4096, 1, 4, 1, 1, 8, 1, kBf16, kBridge, 0,
                  1.2}));

// What ran in 80 GB and was refused. NVIDIA's recipes reduce gradients in 16 bits
// (grad_reduce_in_fp32=False); the first row is of another author, with a fused loss.
struct Ran {
  const char *model, *cluster, *form;
  std::int64_t sequence, batch;
  topologies::Precision precision = topologies::Precision::kBf16;
  std::vector<std::pair<const char*, const char*>> settings = {{"grad_dtype", "bf16"}};
};

TEST(Verdict, WhatRanInEightyGigabytesIsNotRefused) {
  for (const Ran& ran : {
           Ran{"qwen3-30b-a3b",
               "hgx-h800x2",
               "pp2.ep8.fsdp8.mb1.zero1",
               8192,
               256,
               kBf16,
               {{"cross_entropy_fusion", "true"}, {"expandable_segments", "true"}}},
           Ran{"llama-3.1-405b", "dgx-h100x72", "tp8.pp9.vpp7.cp2.fsdp4.mb1.zero1", 8192, 252},
           Ran{"llama-3.1-405b", "dgx-h100x72", "tp8.pp9.vpp7.cp2.fsdp4.mb1.zero1", 8192, 252,
               topologies::Precision::kFp8},
           Ran{"llama-3-8b", "dgx-h100x1", "cp2.fsdp4.mb1.zero1", 8192, 128},
           Ran{"gpt3-175b", "dgx-h100x16", "tp4.pp8.vpp12.fsdp4.mb1.zero1", 2048, 256,
               topologies::Precision::kFp8},
           Ran{"nemotron-4-15b", "dgx-h100x2", "tp2.fsdp8.mb2.zero1", 4096, 64},
           Ran{"nemotron-4-340b", "dgx-h100x32", "tp8.pp8.vpp12.fsdp4.mb1.zero1", 4096, 64},
           Ran{"llama-3.1-70b", "dgx-h100x8", "tp4.pp8.vpp5.fsdp2.mb1.zero1", 8192, 128},
       }) {
    Job job =
        job_of({ran.model, ran.cluster, ran.batch, ran.sequence, 0, 0, 0, 0, 0, 0, ran.precision});
    for (const auto& [key, value] : ran.settings) {
      apply_setting(job.framework, key, value);
    }
    if (job.model.moe) {
      job.model.moe->capacity_factor = 1.0;
    }
    Plan plan = parse_short_form(ran.form);
    plan.micro_batches = job.global_batch / plan.data_parallel() / plan.micro_batch;
    ASSERT_FALSE(check_plan(job, plan).has_value()) << ran.form;
    MemoryEstimate memory;
    MemoryModel(job).estimate(plan, memory);
    EXPECT_NE(memory.fit, Fit::kNo) << ran.model << " " << ran.form << ": "
                                    << memory.reserved_low_gib << " of " << memory.capacity_gib;
  }
}

// 61 layers got no pipeline, and so 74.8 s; those figures are without the prediction module. The
// best has the switches that `plan` gives it.
TEST(PublishedLayouts, DeepSeekV3On256H200TakesAtMost45Seconds) {
  Job job = job_of({"deepseek-v3", "hgx-h200x32", 4096, 4096, 0, 0, 0, 0, 0, 0, kBf16});
  const SearchResult trained = search(job, {});
  job.model.multi_token_layers = 0;
  const SearchResult found = search(job, {});
  ASSERT_TRUE(found.best.has_value() && trained.best.has_value());
  fmt::print("DeepSeek-V3 on 256 H200: {:.2f} s, {:.2f} s with its prediction module\n",
             found.best->time.step_seconds, trained.best->time.step_seconds);
  EXPECT_LE(switched_for(job, found.best->plan, {}).estimate.time.step_seconds, 45);
  EXPECT_GT(found.best->plan.pipeline, 1);
}

}  // namespace
}  // namespace trireme::planner
