// Small lowered programs as text, so that every change of what a plan runs is seen in a diff.
// TRIREME_UPDATE_GOLDEN=1 rewrites the files.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "core/program_text.h"
#include "core/verify.h"
#include "planner/lower/lower.h"
#include "tests/conformance/tiny_jobs.h"

namespace trireme {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void compare_with_golden(const std::string& name, const planner::Job& job,
                         const planner::Plan& plan) {
  const StepProgram program = planner::lower(job, plan);
  EXPECT_TRUE(verify(program).empty());
  const std::string text = print(program);
  EXPECT_TRUE(parse_program(text, name) == program);
  const std::string path = std::string(TRIREME_SOURCE_DIR) + "/tests/golden/programs/" + name;
  if (std::getenv("TRIREME_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
  }
  EXPECT_TRUE(read_file(path) == text)
      << path << " differs; TRIREME_UPDATE_GOLDEN=1 rewrites it, git diff shows what changed";
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

TEST(GoldenProgram, InterleavedPipeline) {
  const auto job = tests::job_of(tests::llama_shape(4), 8, 2);
  planner::Plan plan = tests::plan_of("pp2", 2);
  plan.virtual_pipeline = 2;
  plan.schedule = planner::Schedule::kInterleaved;
  compare_with_golden("interleaved.txt", job, plan);
}

}  // namespace
}  // namespace trireme
