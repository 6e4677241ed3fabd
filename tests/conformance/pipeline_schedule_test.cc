// The pipeline schedules in the walk: step times equal to the formulas of the schedules' papers
// when all stages are equal and nothing else costs, and as many micro-batches in flight as they
// say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

#include "core/verify.h"
#include "planner/lower/lower.h"
#include "planner/plan/schedule_times.h"
#include "planner/walk/walk.h"
#include "tests/conformance/tiny_jobs.h"

namespace trireme {
namespace {

using planner::Plan;
using planner::Schedule;

// Picoseconds of one chunk's forward, input gradient and weight gradient.
struct ChunkTimes {
  std::int64_t forward = 0, input = 0, weight = 0;
};

// One op of each layer carries its pass's time; all others, transfers included, take none.
StepTimes stage_times(const StepProgram& program, const ChunkTimes& chunk) {
  StepTimes times;
  for (const Program& role : program.roles) {
    std::vector<OpTime> ops(role.ops.size());
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const std::string& name = role.names[role.ops[i].name];
      const bool compute = std::holds_alternative<Compute>(role.ops[i].kind);
      if (compute && name == "attention") {
        ops[i].duration = SimDuration(chunk.forward);
      } else if (compute && name == "attention_gradient") {
        ops[i].duration = SimDuration(chunk.input);
      } else if (compute && name == "qkv_weight") {
        ops[i].duration = SimDuration(chunk.weight);
      }
    }
    times.roles.push_back(std::move(ops));
  }
  return times;
}

Plan pipeline(Schedule schedule, std::int64_t stages, std::int64_t micro_batches,
              std::int64_t chunks) {
  Plan plan;
  plan.pipeline = stages;
  plan.virtual_pipeline = chunks;
  plan.micro_batches = micro_batches;
  plan.schedule = schedule;
  return plan;
}

StepProgram lowered(const Plan& plan, const std::string& settings = "") {
  const planner::Job job = tests::job_of(tests::llama_shape(plan.pipeline * plan.virtual_pipeline),
                                         8, plan.micro_batches, settings);
  StepProgram program = planner::lower(job, plan);
  EXPECT_TRUE(verify(program).empty());
  return program;
}

std::int64_t step_time(const Plan& plan, const ChunkTimes& times) {
  const StepProgram program = lowered(plan);
  return planner::walk(program, stage_times(program, times)).step_times.front().value;
}

// p, m
using Grid = std::vector<std::pair<std::int64_t, std::int64_t>>;
const Grid kGrid = {{2, 2}, {2, 8}, {4, 8}, {4, 16}, {8, 8}, {8, 24}};

TEST(PipelineSchedule, GpipeAndOneForwardOneBackwardTakeTheirFormula) {
  const ChunkTimes times{1000, 1300, 700};
  for (const auto& [p, m] : kGrid) {
    const std::int64_t expected = (m + p - 1) * (times.forward + times.input + times.weight);
    EXPECT_EQ(step_time(pipeline(Schedule::kGpipe, p, m, 1), times), expected) << p << " " << m;
    EXPECT_EQ(step_time(pipeline(Schedule::kOneForwardOneBackward, p, m, 1), times), expected)
        << p << " " << m;
  }
}

TEST(PipelineSchedule, InterleavingDividesTheBubbleByTheChunks) {
  const ChunkTimes chunk{1000, 1300, 700};
  for (const auto& [p, m] : kGrid) {
    for (const std::int64_t v : {2, 4}) {
      // (m + (p - 1) / v) (F + B) with F + B = v chunks'.
      const std::int64_t expected = (m * v + p - 1) * (chunk.forward + chunk.input + chunk.weight);
      EXPECT_EQ(step_time(pipeline(Schedule::kInterleaved, p, m, v), chunk), expected)
          << p << " " << m << " " << v;
    }
  }
}

TEST(PipelineSchedule, ZeroBubbleTakesItsFormula) {
  // m (F + I + W) + (p - 1) (F + I - W), for F = I = W and near it (Qi et al. 2024).
  for (const ChunkTimes& times : {ChunkTimes{1000, 1000, 1000}, ChunkTimes{1000, 1050, 950}}) {
    for (const auto& [p, m] : kGrid) {
      const std::int64_t expected = m * (times.forward + times.input + times.weight) +
                                    (p - 1) * (times.forward + times.input - times.weight);
      const std::int64_t actual = step_time(pipeline(Schedule::kZeroBubbleH1, p, m, 1), times);
      EXPECT_NEAR(static_cast<double>(actual), static_cast<double>(expected),
                  1e-3 * static_cast<double>(expected))
          << p << " " << m;
    }
  }
}

TEST(PipelineSchedule, TwiceTheForwardsLeaveNoBubble) {
  // ZB-H2 with F = I = W: every stage works without a pause; the step is that and the p - 1
  // forwards by which the last stage starts later. The paper's m (F + I + W) + (p - 1) (F + I - 2
  // W) lets the next step fill those.
  const ChunkTimes times{1000, 1000, 1000};
  for (const auto& [p, m] : Grid{{2, 8}, {4, 16}, {8, 32}}) {
    EXPECT_EQ(step_time(pipeline(Schedule::kZeroBubbleH2, p, m, 1), times),
              m * 3000 + (p - 1) * 1000)
        << p << " " << m;
  }
}

TEST(PipelineSchedule, ZeroBubbleInAVHasNoBubble) {
  // Qi et al. 2024: with F = I = W every rank works without a pause; the step is that and what the
  // last rank starts later, a chunk's forward each.
  const ChunkTimes times{1000, 1000, 1000};
  for (const auto& [p, m] : Grid{{2, 3}, {2, 8}, {4, 7}, {4, 16}, {8, 15}, {8, 32}}) {
    EXPECT_EQ(step_time(pipeline(Schedule::kZeroBubbleV, p, m, 2), times),
              2 * m * 3000 + (p - 1) * 1000)
        << p << " " << m;
  }
}

TEST(PipelineSchedule, DualPipeInAVIsAsShortWithFewerSplitBackwards) {
  // As ZB-V with F = I = W; else within the bubble of DeepSeek-V3's table 2, (p - 1) (F&B + B - 3
  // W) over the p ranks of half a DualPipe, where F&B takes F + B and B is I + W.
  for (const auto& [p, m] : Grid{{2, 4}, {2, 8}, {4, 8}, {4, 16}, {8, 16}, {8, 32}}) {
    const Plan plan = pipeline(Schedule::kDualPipeV, p, m, 2);
    EXPECT_EQ(step_time(plan, {1000, 1000, 1000}), 2 * m * 3000 + (p - 1) * 1000) << p << " " << m;
    const ChunkTimes times{1000, 1300, 700};
    const std::int64_t backward = times.input + times.weight;
    EXPECT_LE(step_time(plan, times),
              2 * m * 3000 + (p - 1) * (times.forward + 2 * backward - 3 * times.weight))
        << p << " " << m;
  }
}

// Most buffers of a name alive at once.
std::int64_t most_alive(const Program& role, const std::string& name) {
  const std::vector<Lifetime> lives = lifetimes(role);
  std::vector<std::int64_t> change(role.ops.size() + 1, 0);
  for (std::size_t b = 0; b < lives.size(); ++b) {
    if (role.names[role.buffers[b].name] == name && lives[b].first <= lives[b].last) {
      ++change[lives[b].first];
      --change[lives[b].last + 1];
    }
  }
  std::int64_t alive = 0;
  std::int64_t most = 0;
  for (const std::int64_t step : change) {
    alive += step;
    most = std::max(most, alive);
  }
  return most;
}

std::vector<std::int64_t> in_flight(const Plan& plan, const std::string& name) {
  std::vector<std::int64_t> result;
  for (const Program& role : lowered(plan).roles) {
    result.push_back(most_alive(role, name));
  }
  return result;
}

using Counts = std::vector<std::int64_t>;

TEST(PipelineSchedule, InFlightCountsAreThePublishedOnes) {
  // p 4, m 8: GPipe 8 everywhere; 1F1B p - r; interleaved chunks (v - 1) p + 2 (p - 1 - r)
  // + 1.
  EXPECT_EQ(in_flight(pipeline(Schedule::kGpipe, 4, 8, 1), "activation"), (Counts{8, 8, 8, 8}));
  EXPECT_EQ(in_flight(pipeline(Schedule::kOneForwardOneBackward, 4, 8, 1), "activation"),
            (Counts{4, 3, 2, 1}));
  EXPECT_EQ(in_flight(pipeline(Schedule::kInterleaved, 4, 8, 2), "activation"),
            (Counts{11, 9, 7, 5}));
  EXPECT_EQ(in_flight(pipeline(Schedule::kInterleaved, 4, 8, 4), "activation"),
            (Counts{19, 17, 15, 13}));
  EXPECT_EQ(in_flight(pipeline(Schedule::kInterleaved, 4, 4, 2), "activation"),
            (Counts{8, 8, 7, 5}));
  EXPECT_EQ(in_flight(pipeline(Schedule::kInterleaved, 8, 32, 2), "activation"),
            (Counts{23, 21, 19, 17, 15, 13, 11, 9}));
  // ZB-H1: p on every rank until the weight gradient, p - r of what the input gradient alone needs.
  EXPECT_EQ(in_flight(pipeline(Schedule::kZeroBubbleH1, 4, 8, 1), "activation"),
            (Counts{4, 4, 4, 4}));
  EXPECT_EQ(in_flight(pipeline(Schedule::kZeroBubbleH1, 4, 8, 1), "attention_statistics"),
            (Counts{4, 3, 2, 1}));
}

TEST(PipelineSchedule, TwiceTheForwardsAreInFlight) {
  // 2p - 1 on every rank until the weight gradient (Qi et al. 2024).
  EXPECT_EQ(in_flight(pipeline(Schedule::kZeroBubbleH2, 4, 16, 1), "activation"),
            (Counts{7, 7, 7, 7}));
  EXPECT_EQ(in_flight(pipeline(Schedule::kZeroBubbleH2, 4, 16, 1), "attention_statistics"),
            (Counts{7, 5, 3, 1}));
}

TEST(PipelineSchedule, InAVAsManyAreInFlightAsOn1F1BsFirstRank) {
  // 2p chunks of half a rank's layers; DualPipeV one more.
  EXPECT_EQ(in_flight(pipeline(Schedule::kZeroBubbleV, 4, 16, 2), "activation"),
            (Counts{8, 8, 8, 8}));
  EXPECT_EQ(in_flight(pipeline(Schedule::kDualPipeV, 4, 16, 2), "activation"),
            (Counts{9, 9, 9, 9}));
}

TEST(PipelineSchedule, InAVTheBottomHandsOnWithoutAMessage) {
  for (const Schedule schedule : {Schedule::kZeroBubbleV, Schedule::kDualPipeV}) {
    const StepProgram program = lowered(pipeline(schedule, 4, 8, 2));
    std::vector<std::int64_t> messages;
    for (const Program& role : program.roles) {
      messages.push_back(std::count_if(role.ops.begin(), role.ops.end(), [](const Op& op) {
        return std::holds_alternative<Send>(op.kind);
      }));
      for (const Op& op : role.ops) {
        if (const auto* send = std::get_if<Send>(&op.kind)) {
          EXPECT_EQ(std::abs(send->peer), program.stages.stride);
        }
      }
    }
    EXPECT_EQ(messages, (Counts{16, 32, 32, 16}));
  }
}

TEST(PipelineSchedule, StepsInAVEndForEveryNumberOfMicroBatches) {
  for (const std::int64_t ranks : {2, 3, 4, 6}) {
    for (std::int64_t micro_batches = 1; micro_batches <= 4 * ranks + 1; ++micro_batches) {
      EXPECT_TRUE(
          verify(lowered(pipeline(Schedule::kZeroBubbleV, ranks, micro_batches, 2))).empty());
      if (micro_batches >= 2 * ranks) {
        EXPECT_TRUE(
            verify(lowered(pipeline(Schedule::kDualPipeV, ranks, micro_batches, 2))).empty());
      }
    }
  }
}

// One stream for the messages of both chunks let those to one neighbour wait for the other one.
TEST(PipelineSchedule, InAVMessagesWaitForNothingButTheirOrder) {
  for (const Schedule schedule : {Schedule::kZeroBubbleV, Schedule::kDualPipeV}) {
    for (const ChunkTimes& times : {ChunkTimes{1000, 1000, 1000}, ChunkTimes{1000, 1200, 800},
                                    ChunkTimes{600, 1000, 1300}, ChunkTimes{1000, 2000, 1000}}) {
      for (const auto& [p, m] : Grid{{2, 4}, {4, 8}, {4, 13}, {8, 24}}) {
        const Plan plan = pipeline(schedule, p, m, 2);
        const std::vector<planner::PassSeconds> chunks(
            static_cast<std::size_t>(2 * p),
            {static_cast<double>(times.forward), static_cast<double>(times.input),
             static_cast<double>(times.weight)});
        EXPECT_EQ(static_cast<double>(step_time(plan, times)),
                  planner::time_schedule(plan, chunks, 0).end)
            << planner::short_form(plan) << " " << m;
      }
    }
  }
}

TEST(PipelineSchedule, BlockingExchangesCostTimeWhenTransfersDo) {
  const Plan plan = pipeline(Schedule::kOneForwardOneBackward, 4, 8, 1);
  const ChunkTimes times{1000, 1000, 1000};
  std::vector<std::int64_t> steps;
  for (const char* settings : {"blocking_p2p=false", "blocking_p2p=true"}) {
    const StepProgram program = lowered(plan, settings);
    StepTimes durations = stage_times(program, times);
    for (std::size_t r = 0; r < program.roles.size(); ++r) {
      for (std::size_t i = 0; i < durations.roles[r].size(); ++i) {
        const OpKind& kind = program.roles[r].ops[i].kind;
        if (std::holds_alternative<Send>(kind) || std::holds_alternative<Recv>(kind)) {
          durations.roles[r][i].duration = SimDuration(100);
        }
      }
    }
    steps.push_back(planner::walk(program, durations).step_times.front().value);
  }
  // Both pay fill and drain; blocking pays the exchanges of the steady state too.
  EXPECT_GE(steps[0], 11 * 3000 + 6 * 100);
  EXPECT_GT(steps[1], steps[0]);
}

// Groups of p micro-batches with a smaller last one waited for themselves; the groups are of the
// next size that leaves none.
TEST(PipelineSchedule, InterleavedStepsEndForEveryNumberOfMicroBatches) {
  for (std::int64_t micro_batches = 1; micro_batches <= 23; ++micro_batches) {
    const Plan plan = pipeline(Schedule::kInterleaved, 4, micro_batches, 3);
    const StepProgram program = lowered(plan, "");
    const std::vector<std::string> problems = verify(program);
    EXPECT_TRUE(problems.empty()) << micro_batches << ": " << problems.front();
  }
}

}  // namespace
}  // namespace trireme
