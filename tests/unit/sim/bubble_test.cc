// Pipelines with equal stages and free messages: idle shares and in-flight counts are the
// textbook's, exactly.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "sim/simulate.h"
#include "tests/unit/sim/pipeline_program.h"

namespace trireme::sim {
namespace {

using planner::Plan;
using planner::Schedule;

struct Case {
  std::string name;
  Schedule schedule = Schedule::kGpipe;
  std::int64_t stages = 4, micro_batches = 8, chunks = 1;
};

Plan plan_of(const Case& test) {
  Plan plan;
  plan.pipeline = test.stages;
  plan.micro_batches = test.micro_batches;
  plan.virtual_pipeline = test.chunks;
  plan.schedule = test.schedule;
  return plan;
}

// Micro-batches (times chunks) whose forward has begun and whose input gradient has not ended, at
// most.
std::int64_t in_flight_most(const Simulation& simulation, const StepProgram& program,
                            std::uint32_t role) {
  std::vector<std::pair<std::int64_t, int>> changes;
  for (const OpTiming& timing : simulation.trace.timings) {
    if (index_of(timing.role) != role) {
      continue;
    }
    const Op& op = program.roles[role].ops[index_of(timing.op)];
    if (std::holds_alternative<Compute>(op.kind) && op.origin.phase == Phase::kForward) {
      changes.emplace_back(timing.start.picoseconds, 1);
    } else if (std::holds_alternative<Compute>(op.kind) && op.origin.phase == Phase::kBackward) {
      changes.emplace_back(timing.end.picoseconds, -1);
    }
  }
  std::sort(changes.begin(), changes.end());
  std::int64_t now = 0;
  std::int64_t most = 0;
  for (const auto& [time, change] : changes) {
    now += change;
    most = std::max(most, now);
  }
  return most;
}

class Bubble : public testing::TestWithParam<Case> {};

TEST_P(Bubble, IsTheFormulas) {
  const Case& test = GetParam();
  const double p = static_cast<double>(test.stages);
  const double m = static_cast<double>(test.micro_batches);
  const double v = static_cast<double>(test.chunks);
  const PassTimes pass{.forward = 1200 * kMicrosecond,
                       .input_gradient = 1200 * kMicrosecond,
                       .weight_gradient = 1200 * kMicrosecond,
                       .message = 0};
  const StepBuilder step = pipeline_program(plan_of(test), pass, false);
  const Simulation result = simulate(step.program, step.times, eight_gpu_nodes(4));
  ASSERT_EQ(result.deadlock, "");
  // Idle over total: (p - 1) / (v m + p - 1) for whole backwards. ZB-H1: m (F + I + W) + (p - 1)(F
  // + I - W) in all, a bubble of (p - 1)(F + I - W), with F = I = W a third of 1F1B's.
  double idle = (p - 1) / (v * m + p - 1);
  if (test.schedule == Schedule::kZeroBubbleH1) {
    idle = (p - 1) / (3 * m + p - 1);
  }
  for (std::uint32_t stage = 0; stage < result.actors.size(); ++stage) {
    const double measured = 1 - to_seconds(result.actors[stage].busy) / to_seconds(result.step);
    EXPECT_NEAR(measured, idle, 1e-3 * idle) << "stage " << stage;
    if (test.schedule == Schedule::kGpipe) {
      EXPECT_EQ(in_flight_most(result, step.program, stage), test.micro_batches);
    } else if (test.schedule != Schedule::kInterleaved) {
      EXPECT_EQ(in_flight_most(result, step.program, stage),
                std::min(test.micro_batches, test.stages - stage));
    } else {
      const std::int64_t warm_up = 2 * (test.stages - 1 - stage) + (test.chunks - 1) * test.stages;
      EXPECT_EQ(in_flight_most(result, step.program, stage),
                std::min(test.micro_batches * test.chunks, warm_up + 1));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, Bubble,
    testing::Values(Case{"GPipe", Schedule::kGpipe, 4, 8, 1},
                    Case{"GPipeWide", Schedule::kGpipe, 8, 32, 1},
                    Case{"OneForwardOneBackward", Schedule::kOneForwardOneBackward, 4, 8, 1},
                    Case{"OneForwardOneBackwardWide", Schedule::kOneForwardOneBackward, 8, 32, 1},
                    Case{"InterleavedTwo", Schedule::kInterleaved, 4, 8, 2},
                    Case{"InterleavedFour", Schedule::kInterleaved, 4, 16, 4},
                    Case{"ZeroBubble", Schedule::kZeroBubbleH1, 4, 8, 1},
                    Case{"ZeroBubbleWide", Schedule::kZeroBubbleH1, 8, 32, 1}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace trireme::sim
