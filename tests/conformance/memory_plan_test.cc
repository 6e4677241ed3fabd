// The planned arena of the CUDA backend, held to the programs it serves: memory changes hands only
// between ops that streams and waits order, and the extra waits that see to it close no circle
// across ranks.
#include "runtime/cuda/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/happens_before.h"
#include "core/verify.h"
#include "planner/lower/lower.h"
#include "tests/conformance/tiny_jobs.h"

namespace trireme {
namespace {

using planner::Plan;
using planner::Sharding;

constexpr std::int64_t kBatch = 16;

// The role with the plan's extra waits as waits of its own.
Program with_extra_waits(const Program& role, const runtime::cuda::MemoryPlan& plan) {
  Program result = role;
  result.waits.clear();
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    const IndexRange old = role.ops[i].waits;
    const auto first = static_cast<std::uint32_t>(result.waits.size());
    result.waits.insert(result.waits.end(), role.waits.begin() + old.first,
                        role.waits.begin() + old.first + old.count);
    result.waits.insert(result.waits.end(), plan.extra_waits[i].begin(), plan.extra_waits[i].end());
    result.ops[i].waits = {first, static_cast<std::uint32_t>(result.waits.size()) - first};
  }
  return result;
}

std::vector<std::vector<OpId>> users_of_buffers(const Program& role) {
  std::vector<std::vector<OpId>> users(role.buffers.size());
  for (std::uint32_t i = 0; i < role.ops.size(); ++i) {
    const IndexRange range = role.ops[i].operands;
    for (std::uint32_t j = range.first; j < range.first + range.count; ++j) {
      users[index_of(role.operands[j].buffer)].push_back(OpId(i));
    }
  }
  return users;
}

// Pairs of buffers that share bytes without every op of the earlier one ending before every op of
// the later one.
std::int64_t unordered_pairs(const StepProgram& program, const Program& role,
                             const runtime::cuda::MemoryPlan& plan) {
  const HappensBefore before(role);
  const auto users = users_of_buffers(role);
  std::vector<std::uint32_t> placed;
  for (std::uint32_t i = 0; i < role.buffers.size(); ++i) {
    if (plan.offsets[i] >= 0) {
      placed.push_back(i);
    }
  }
  const auto ends = [&](std::uint32_t buffer) {
    return plan.offsets[buffer] + size_of(program, role.buffers[buffer]).value;
  };
  std::sort(placed.begin(), placed.end(),
            [&](std::uint32_t a, std::uint32_t b) { return plan.offsets[a] < plan.offsets[b]; });
  const auto all_before = [&](std::uint32_t a, std::uint32_t b) {
    return std::all_of(users[a].begin(), users[a].end(), [&](OpId x) {
      return std::all_of(users[b].begin(), users[b].end(),
                         [&](OpId y) { return before.ordered(role, x, y); });
    });
  };
  std::int64_t unordered = 0;
  for (std::size_t i = 0; i < placed.size(); ++i) {
    for (std::size_t j = i + 1; j < placed.size() && plan.offsets[placed[j]] < ends(placed[i]);
         ++j) {
      unordered += all_before(placed[i], placed[j]) || all_before(placed[j], placed[i]) ? 0 : 1;
    }
  }
  return unordered;
}

std::vector<Plan> plans() {
  std::vector<Plan> result = {tests::plan_of("dp2", kBatch), tests::plan_of("tp2.pp2.dp2", kBatch),
                              tests::plan_of("pp4", kBatch), tests::plan_of("fsdp4", kBatch)};
  result[1].sequence_parallel = true;
  result[3].sharding = Sharding::kFull;
  Plan interleaved = tests::plan_of("pp2.dp2", kBatch);
  interleaved.virtual_pipeline = 2;
  interleaved.schedule = planner::Schedule::kInterleaved;
  result.push_back(interleaved);
  Plan everything = tests::plan_of("tp2.pp2.fsdp2", kBatch);
  everything.sharding = Sharding::kFull;
  everything.sequence_parallel = true;
  everything.recompute = planner::Recompute::kFull;
  result.push_back(everything);
  Plan zero_bubble = tests::plan_of("pp4.dp2", kBatch);
  zero_bubble.schedule = planner::Schedule::kZeroBubbleH1;
  result.push_back(zero_bubble);
  return result;
}

TEST(MemoryPlan, ReusedMemoryIsOrderedAndNothingWaitsInACircle) {
  for (const models::Transformer& model : {tests::llama_shape(), tests::gpt_shape()}) {
    for (const Plan& plan : plans()) {
      SCOPED_TRACE(model.name + " " + planner::short_form(plan));
      planner::Job job = tests::job_of(model, 8, kBatch);
      job.cluster.gpus = plan.gpus();
      const StepProgram program = planner::lower(job, plan, {.widths = {}, .executable = true});
      StepProgram ordered = program;
      for (std::size_t i = 0; i < program.roles.size(); ++i) {
        const auto memory = runtime::cuda::plan_memory(program, program.roles[i]);
        ordered.roles[i] = with_extra_waits(program.roles[i], memory);
        EXPECT_EQ(unordered_pairs(program, ordered.roles[i], memory), 0) << "stage " << i;
        const Liveness live = liveness(program, program.roles[i]);
        EXPECT_EQ(memory.live_peak_bytes, (live.peak - live.persistent).value);
        EXPECT_GE(memory.arena_bytes, memory.live_peak_bytes);
      }
      const std::vector<std::string> problems = verify(ordered);
      EXPECT_TRUE(problems.empty()) << problems.front();
    }
  }
}

TEST(MemoryPlan, TheTestSeesAMissingWait) {
  Plan plan = tests::plan_of("fsdp4", kBatch);
  plan.sharding = Sharding::kFull;
  planner::Job job = tests::job_of(tests::llama_shape(), 8, kBatch);
  job.cluster.gpus = plan.gpus();
  StepProgram program = planner::lower(job, plan, {.widths = {}, .executable = true});
  const auto memory = runtime::cuda::plan_memory(program, program.roles[0]);
  for (Op& op : program.roles[0].ops) {
    op.waits.count = 0;  // streams alone order nothing across them
  }
  EXPECT_GT(unordered_pairs(program, program.roles[0], memory), 0);
}

}  // namespace
}  // namespace trireme
