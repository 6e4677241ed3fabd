// The closed form of a pipeline where it is exact: equal stages, no communication.
#include "planner/cost/pipeline_time.h"

#include <gtest/gtest.h>

namespace trireme::planner {
namespace {

// Four stages of two chunks, 1 s forward and 2 s backward a stage.
// Each chunk's backward repeats `before_message` seconds before it needs its gradient.
double interleaved_seconds(std::int64_t micro_batches, double before_message = 0) {
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
                           .slowest_backward = 2,
                           .before_message = before_message,
                           .before_messages = 4 * before_message};
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

// Of eight chunks' backwards all but the last stage's first one come behind a wait; with a
// micro-batch a rank those of the drain alone.
TEST(PipelineTime, WhoWaitsForAGradientHasRepeatedTheLastLayerBefore) {
  EXPECT_DOUBLE_EQ(interleaved_seconds(1, 0.25), 12 - 7 * 0.25);
  EXPECT_DOUBLE_EQ(interleaved_seconds(4, 0.25), interleaved_seconds(4) - 3 * 0.25);
}

}  // namespace
}  // namespace trireme::planner
