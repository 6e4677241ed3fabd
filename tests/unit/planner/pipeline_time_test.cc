// The closed form of a pipeline where it is exact: equal stages, no communication.
#include "planner/cost/pipeline_time.h"

#include <gtest/gtest.h>

namespace trireme::planner {
namespace {

// Four stages of two chunks, 1 s forward and 2 s backward a stage.
double interleaved_seconds(std::int64_t micro_batches) {
  Plan plan;
  plan.pipeline = 4;
  plan.virtual_pipeline = 2;
  plan.schedule = Schedule::kInterleaved;
  plan.micro_batches = micro_batches;
  const StageTotals stages{.sum = 12,
                           .slowest = 3,
                           .sum_forward = 4,
                           .slowest_forward = 1,
                           .sum_backward = 8,
                           .slowest_backward = 2};
  return pipeline_time(plan, stages, HopTimes{}).total;
}

// A search once took one micro-batch through 40 chunks a stage for almost free of bubble.
TEST(PipelineTime, OneMicroBatchPassesInterleavedChunksOneAfterTheOther) {
  EXPECT_DOUBLE_EQ(interleaved_seconds(1), 12);
  EXPECT_DOUBLE_EQ(interleaved_seconds(2), 12 + 1.5);
}

TEST(PipelineTime, InterleavingWithAMicroBatchARankHasTheFormulasBubble) {
  EXPECT_DOUBLE_EQ(interleaved_seconds(4), 4 * 3 + 3 * 1.5);  // (p - 1) / v of a stage
  EXPECT_DOUBLE_EQ(interleaved_seconds(3) + 1.5, interleaved_seconds(4));
}

}  // namespace
}  // namespace trireme::planner
