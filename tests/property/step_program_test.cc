// Relations that hold for the program of every plan, over seeded random plans. TRIREME_CASES sets
// how many, and TRIREME_SEED the first seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/program_text.h"
#include "core/verify.h"
#include "planner/lower/lower.h"
#include "planner/walk/walk.h"
#include "tests/property/random_plans.h"
#include "tests/property/random_times.h"

namespace trireme {
namespace {

// Busiest stream <= step <= all durations; k times the durations, k times the step.
void check_walk(const StepProgram& program, tests::Random& random) {
  const StepTimes times = tests::random_times(program, random);
  const std::int64_t step = planner::walk(program, times).step_times.front().value;
  std::int64_t busiest = 0;
  std::int64_t all = 0;
  for (std::size_t r = 0; r < program.roles.size(); ++r) {
    std::vector<std::int64_t> streams(program.roles[r].streams.size(), 0);
    for (std::size_t i = 0; i < times.roles[r].size(); ++i) {
      const std::int64_t duration = times.roles[r][i].duration.value;
      streams[index_of(program.roles[r].ops[i].stream)] += duration;
      all += duration + times.roles[r][i].launch.value;
    }
    busiest = std::max(busiest, *std::max_element(streams.begin(), streams.end()));
  }
  EXPECT_LE(busiest, step);
  EXPECT_LE(step, all);
  EXPECT_EQ(planner::walk(program, tests::scaled(times, 3)).step_times.front().value, 3 * step);
}

// Shards of the master parameters cover each parameter exactly once within one copy of the model.
void check_coverage(const StepProgram& program, const planner::Plan& plan) {
  std::map<std::string, std::int64_t> expected;
  std::map<std::string, std::vector<int>> seen;
  for (std::int64_t r = 0; r < program.ranks; ++r) {
    const auto rank = static_cast<Rank>(r);
    const Program& role = program.roles[index_of(role_of(program, rank))];
    for (const ParameterSlice& slice : parameter_slices(program, rank, State::kMaster)) {
      const Parameter& parameter = role.parameters[slice.parameter];
      std::vector<int>& elements = seen[parameter.name];
      elements.resize(static_cast<std::size_t>(parameter.rows * parameter.columns), 0);
      for (std::int64_t i = slice.flat_begin; i < slice.flat_begin + slice.count; ++i) {
        const std::int64_t row = slice.row_begin + i / slice.column_count;
        const std::int64_t column = slice.column_begin + i % slice.column_count;
        ++elements[static_cast<std::size_t>(row * parameter.columns + column)];
      }
      const bool whole = parameter.split == Split::kNone;
      const bool shards = plan.sharding != planner::Sharding::kNone;
      std::int64_t copies = plan.replicas * (shards ? 1 : plan.sharded) * (whole ? plan.tensor : 1);
      const ParameterUnit& unit = role.units[parameter.unit];
      // A tied table stands on the first and the last stage.
      copies *=
          unit.name == "embedding" && plan.pipeline > 1 && program.groups.back().name == "tied" ? 2
                                                                                                : 1;
      expected[parameter.name] = copies;
    }
  }
  for (const auto& [name, elements] : seen) {
    for (const int count : elements) {
      ASSERT_EQ(count, expected[name]) << name;
    }
  }
}

double flop_of_phases(const StepProgram& program, bool recompute) {
  double total = 0;
  for (const Program& role : program.roles) {
    for (const Op& op : role.ops) {
      if (const auto* compute = std::get_if<Compute>(&op.kind)) {
        if ((op.origin.phase == Phase::kRecompute) == recompute) {
          total += role.works[compute->work].flop.value;
        }
      }
    }
  }
  const std::int64_t ranks_of_a_role =
      program.ranks / static_cast<std::int64_t>(program.roles.size());
  return total * static_cast<double>(ranks_of_a_role);
}

// FLOP over all ranks: the model's products and attention, whatever the layout (vocabulary padding
// aside).
void check_flop(const StepProgram& program, const tests::RandomCase& drawn) {
  planner::Plan single;
  single.micro_batch = drawn.job.global_batch;
  planner::Job job = drawn.job;
  const double one = flop_of_phases(planner::lower(job, single), false);
  const double padded = flop_of_phases(program, false);
  const std::int64_t rows = (job.model.vocab + drawn.plan.tensor - 1) / drawn.plan.tensor;
  const double extra_rows = static_cast<double>(rows * drawn.plan.tensor - job.model.vocab);
  const double extra = 6 * extra_rows * static_cast<double>(job.model.hidden) *
                       static_cast<double>(drawn.job.global_batch * drawn.job.sequence);
  EXPECT_NEAR((padded - extra) / one, 1.0, 1e-12);
  const double again = flop_of_phases(program, true);
  if (drawn.plan.recompute == planner::Recompute::kNone) {
    EXPECT_EQ(again, 0);
  } else {
    EXPECT_LT(again, one / 3);
  }
}

TEST(StepProgram, RelationsHoldForRandomPlans) {
  const std::uint64_t cases = tests::from_environment("TRIREME_CASES", 200);
  const std::uint64_t first = tests::from_environment("TRIREME_SEED", 1);
  for (std::uint64_t seed = first; seed < first + cases; ++seed) {
    const tests::RandomCase drawn = tests::random_case(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + drawn.describe());
    const StepProgram program = planner::lower(drawn.job, drawn.plan);
    const std::vector<std::string> problems = verify(program);
    ASSERT_TRUE(problems.empty()) << problems.front();
    EXPECT_TRUE(program == planner::lower(drawn.job, drawn.plan));
    EXPECT_TRUE(parse_program(print(program), "program") == program);
    tests::Random random(seed);
    check_walk(program, random);
    check_coverage(program, drawn.plan);
    check_flop(program, drawn);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

}  // namespace
}  // namespace trireme
