// What products in 8 bits do besides, in closed form and in modelled programs.
#include "planner/cost/narrow_casts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "tests/unit/planner/small_job.h"

namespace trireme::planner {
namespace {

// Products of scores, which stay in 16 bits, were cast too where attention is not fused.
TEST(NarrowCasts, AreOfProductsInEightBitsAlone) {
  Job job = small_job("llama-3.1-8b", "dgx-h100x1", "trireme");
  job.precision = topologies::Precision::kFp8;
  models::LayerWork work;
  work.forward.matmuls = {{models::Part::kScores, 128, 128, 64, 32},
                          {models::Part::kAttentionOutput, 256, 512, 1024},
                          {models::Part::kContext, 128, 64, 128, 32}};
  work.input_gradient.matmuls = work.forward.matmuls;
  add_narrow_casts(job, Plan{}, 0, work);
  const auto bytes = [](const models::PassWork& pass) {
    std::int64_t sum = 0;
    for (const models::MemoryBoundWork& one : pass.memory_bound) {
      EXPECT_EQ(one.part, models::Part::kAttentionOutput);
      EXPECT_TRUE(one.own.has_value());  // as `calibrate` measures it
      sum += one.traffic.value;
    }
    return sum;
  };
  // Both are scanned, read again and written in 8 bits; a gradient is written both ways, and the
  // weight has its scale.
  EXPECT_EQ(bytes(work.forward), (256 + 512) * 1024 * (2 + 2 + 1));
  EXPECT_EQ(bytes(work.input_gradient), 256 * 1024 * (2 + 2 + 2) + 512 * 1024 * (2 + 1));
}

// Products that make latents of one hidden state read what the first of them cast; experts' rows
// are cast by kernels of their own, of all experts at once.
TEST(NarrowCasts, LatentsShareTheirInputAndExpertsTheirKernels) {
  Job job = small_job("deepseek-v2-lite", "dgx-h100x1", "trireme");
  job.precision = topologies::Precision::kFp8;
  models::LayerWork work;
  work.forward.matmuls = {{models::Part::kKeyValueDown, 128, 512, 2048},
                          {models::Part::kKeyValueDown, 128, 64, 2048},
                          {models::Part::kExpertsUp, 16, 2816, 2048, 8}};
  add_narrow_casts(job, Plan{}, 1, work);
  const auto count = [&](Kernel kernel) {
    return std::ranges::count_if(work.forward.memory_bound,
                                 [&](const auto& pass) { return pass.own == kernel; });
  };
  EXPECT_EQ(count(Kernel::kNarrowScale), 1 + 2 + 1);  // of one input and of three weights
  EXPECT_EQ(count(Kernel::kNarrowCast), 1 + 2 + 1);
  EXPECT_EQ(count(Kernel::kExpertNarrowScale), 1);
  EXPECT_EQ(count(Kernel::kExpertNarrowBoth), 1);
}

// Scales that are there before, or are found by the cast itself, have no pass of their own.
TEST(NarrowCasts, OtherRecipesHaveNoPassesThatFindScales) {
  for (const auto& [recipe, cast, both, turned] :
       {std::tuple{"delayed", Kernel::kDelayedCast, Kernel::kDelayedBoth, Kernel::kNarrowTurned},
        {"blockwise", Kernel::kBlockCast, Kernel::kBlockBoth, Kernel::kBlockTurned}}) {
    Job job = small_job("llama-3.1-8b", "dgx-h100x1", "trireme");
    job.precision = topologies::Precision::kFp8;
    apply_setting(job.framework, "fp8_recipe", recipe);
    models::LayerWork work;
    work.forward.matmuls = {{models::Part::kAttentionOutput, 256, 512, 1024}};
    work.input_gradient.matmuls = work.forward.matmuls;
    add_narrow_casts(job, Plan{}, 0, work);
    ASSERT_EQ(work.forward.memory_bound.size(), 2U) << recipe;
    EXPECT_EQ(work.forward.memory_bound[0].own, cast);
    EXPECT_EQ(work.forward.memory_bound[0].traffic.value, 256 * 1024 * (2 + 1));
    EXPECT_EQ(work.forward.memory_bound[1].own, cast);
    ASSERT_EQ(work.input_gradient.memory_bound.size(), 2U) << recipe;
    EXPECT_EQ(work.input_gradient.memory_bound[0].own, both);
    EXPECT_EQ(work.input_gradient.memory_bound[1].own, turned);
  }
}

}  // namespace
}  // namespace trireme::planner
