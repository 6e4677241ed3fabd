// Small lowered programs, and the walk of one, as text, so that every change of what a plan runs is
// seen in a diff. TRIREME_UPDATE_GOLDEN=1 rewrites the files.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/program_text.h"
#include "core/verify.h"
#include "planner/lower/lower.h"
#include "planner/walk/walk.h"
#include "tests/conformance/tiny_jobs.h"

namespace trireme {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void compare_text(const std::string& name, const std::string& text) {
  const std::string path = std::string(TRIREME_SOURCE_DIR) + "/tests/golden/programs/" + name;
  if (std::getenv("TRIREME_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
  }
  EXPECT_TRUE(read_file(path) == text)
      << path << " differs; TRIREME_UPDATE_GOLDEN=1 rewrites it, git diff shows what changed";
}

void compare_with_golden(const std::string& name, const planner::Job& job,
                         const planner::Plan& plan) {
  const StepProgram program = planner::lower(job, plan, {.widths = {}, .executable = true});
  EXPECT_TRUE(verify(program).empty());
  const std::string text = print(program);
  EXPECT_TRUE(parse_program(text, name) == program);
  compare_text(name, text);
}

TEST(GoldenProgram, OneRank) {
  const auto job = tests::job_of(tests::llama_shape(1), 8, 1);
  compare_with_golden("single.txt", job, tests::plan_of("mb1", 1));
}

TEST(GoldenProgram, SequenceParallelWithDistributedOptimizer) {
  const auto job = tests::job_of(tests::gpt_shape(), 8, 2);
  planner::Plan plan = tests::plan_of("tp2.fsdp2", 2);
  plan.sequence_parallel = true;
  plan.sharding = planner::Sharding::kOptimizer;
  compare_with_golden("sequence_parallel.txt", job, plan);
}

TEST(GoldenProgram, FullyShardedWithRecompute) {
  const auto job = tests::job_of(tests::llama_shape(2), 8, 4);
  planner::Plan plan = tests::plan_of("fsdp2", 4);
  plan.sharding = planner::Sharding::kFull;
  plan.recompute = planner::Recompute::kFull;
  compare_with_golden("fully_sharded.txt", job, plan);
}

TEST(GoldenProgram, RoutedExperts) {
  models::Transformer model = tests::expert_shape(true);
  model.layers = 1;
  model.moe_layers = {true};
  const auto job = tests::job_of(model, 8, 2);
  planner::Plan plan = tests::plan_of("tp2.ep2.fsdp2", 2);
  plan.sequence_parallel = true;
  plan.sharding = planner::Sharding::kFull;
  compare_with_golden("experts.txt", job, plan);
}

TEST(GoldenProgram, SharedSequences) {
  const auto job = tests::job_of(tests::llama_shape(1), 8, 1);
  compare_with_golden("context.txt", job, tests::plan_of("cp2", 1));
}

TEST(GoldenProgram, KeysRoundARing) {
  const auto job = tests::job_of(tests::llama_shape(1), 8, 1, "context_gather=false");
  compare_with_golden("ring.txt", job, tests::plan_of("cp2", 1));
}

TEST(GoldenProgram, InterleavedPipeline) {
  const auto job = tests::job_of(tests::llama_shape(4), 8, 2);
  planner::Plan plan = tests::plan_of("pp2", 2);
  plan.virtual_pipeline = 2;
  plan.schedule = planner::Schedule::kInterleaved;
  compare_with_golden("interleaved.txt", job, plan);
}

// One line an op: stage, stream, name, ready, start and end.
std::string print_trace(const StepProgram& program, const Trace& trace) {
  std::string text;
  for (const OpTiming& timing : trace.timings) {
    const Program& role = program.roles[index_of(timing.role)];
    const Op& op = role.ops[index_of(timing.op)];
    text += fmt::format("{} {} {} {} {} {}\n", index_of(timing.role),
                        role.streams[index_of(op.stream)], op_label(role, op),
                        timing.ready.picoseconds, timing.start.picoseconds, timing.end.picoseconds);
  }
  return text;
}

// Products take 100, attention 200, transfers 50, the rest 10; issuing an op takes 1.
StepTimes round_times(const StepProgram& program) {
  StepTimes times;
  for (const Program& role : program.roles) {
    std::vector<OpTime> ops;
    for (const Op& op : role.ops) {
      std::int64_t duration = 50;
      if (const auto* compute = std::get_if<Compute>(&op.kind)) {
        const Kernel kernel = role.works[compute->work].kernel;
        const bool attention =
            kernel == Kernel::kAttentionForward || kernel == Kernel::kAttentionBackward;
        duration = kernel == Kernel::kMatmul ? 100 : attention ? 200 : 10;
      }
      ops.push_back({SimDuration(duration), SimDuration(1)});
    }
    times.roles.push_back(std::move(ops));
  }
  return times;
}

void compare_walk(const std::string& name, const planner::Job& job, const planner::Plan& plan) {
  const StepProgram program = planner::lower(job, plan);
  compare_text(name, print_trace(program, planner::walk(program, round_times(program))));
}

TEST(GoldenTrace, InterleavedPipeline) {
  planner::Plan plan = tests::plan_of("pp2", 2);
  plan.virtual_pipeline = 2;
  plan.schedule = planner::Schedule::kInterleaved;
  compare_walk("trace_interleaved.txt", tests::job_of(tests::llama_shape(4), 8, 2), plan);
}

TEST(GoldenTrace, SplitBackward) {
  planner::Plan plan = tests::plan_of("pp2", 4);
  plan.schedule = planner::Schedule::kZeroBubbleH1;
  compare_walk("trace_zero_bubble.txt", tests::job_of(tests::llama_shape(2), 8, 4), plan);
}

TEST(GoldenTrace, FullyShardedWithRecompute) {
  planner::Plan plan = tests::plan_of("fsdp2", 4);
  plan.sharding = planner::Sharding::kFull;
  plan.recompute = planner::Recompute::kFull;
  compare_walk("trace_fully_sharded.txt", tests::job_of(tests::llama_shape(2), 8, 4), plan);
}

TEST(GoldenTrace, SequenceParallelWithDistributedOptimizer) {
  planner::Plan plan = tests::plan_of("tp2.fsdp2", 2);
  plan.sequence_parallel = true;
  plan.sharding = planner::Sharding::kOptimizer;
  compare_walk("trace_sequence_parallel.txt", tests::job_of(tests::gpt_shape(), 8, 2), plan);
}

TEST(GoldenTrace, TwoStagesWithOneForwardOneBackward) {
  const auto job = tests::job_of(tests::llama_shape(2), 8, 4);
  const StepProgram program = planner::lower(job, tests::plan_of("pp2", 4));
  compare_text("trace_1f1b.txt",
               print_trace(program, planner::walk(program, round_times(program))));
}

}  // namespace
}  // namespace trireme
