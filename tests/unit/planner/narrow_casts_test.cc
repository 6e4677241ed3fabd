// What products in 8 bits do besides, in closed form and in modelled programs.
#include "planner/cost/narrow_casts.h"

#include <gtest/gtest.h>

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
  ASSERT_EQ(work.forward.memory_bound.size(), 1U);
  ASSERT_EQ(work.input_gradient.memory_bound.size(), 1U);
  // Both are scanned, read again and written in 8 bits; a gradient is written both ways, and the
  // weight has its scale.
  EXPECT_EQ(work.forward.memory_bound.front().traffic.value, (256 + 512) * 1024 * (2 + 2 + 1));
  EXPECT_EQ(work.input_gradient.memory_bound.front().traffic.value,
            256 * 1024 * (2 + 2 + 2) + 512 * 1024 * (2 + 1));
}

}  // namespace
}  // namespace trireme::planner
