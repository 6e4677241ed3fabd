// Pipelines without any kernel estimate: stage times that a publication measured (Zero Bubble
// Pipeline Parallelism, ICLR 2024, table 6) as the ops' durations, and the steps it measured (table
// 4) beside the simulated ones.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/simulate.h"
#include "tests/unit/sim/pipeline_program.h"

namespace trireme::sim {
namespace {

using planner::Plan;
using planner::Schedule;

std::filesystem::path data_file() {
  const char* shared = std::getenv("TRIREME_SHARED_DATA");
  const std::filesystem::path folder =
      shared != nullptr ? std::filesystem::path(shared)
                        : std::filesystem::path(TRIREME_SOURCE_DIR "/../shared/data");
  return folder / "published" / "zero_bubble_2024.json";
}

// The paper's micro-batch sizes of the profile, by model.
std::int64_t profiled_micro_batch(const std::string& model) {
  return model == "1.5B" ? 6 : model == "6.2B" ? 3 : 1;
}

std::int64_t picoseconds(const nlohmann::json& milliseconds) {
  return static_cast<std::int64_t>(std::llround(milliseconds.get<double>() * 1e9));
}

// Like GPUs are not equally fast, and a pipeline runs at the pace of its slowest stage. Sinha et
// al. (SC 2022, arXiv 2208.11035) measured, within clusters of V100s and of MI60s, ranges of 8 % on
// average and 22 % at most between a box plot's whiskers, which are 5.4 deviations of a normal
// distribution: 1.5 to 4 %. No such measurement of these A100s is known; 3 % lies between. The mean
// error is 6.4 % without a spread, 5.0 % with 1.5 %, 3.2 % with 3 % and 2.1 % with 4 %.
constexpr double kRankSpread = 0.03;
constexpr int kSeeds = 3;

double simulated_seconds(const Plan& plan, const PassTimes& pass) {
  const StepBuilder step = pipeline_program(plan, pass, true);
  double sum = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    SimulateOptions options;
    options.record_trace = false;
    options.faults.rank_spread = kRankSpread;
    options.faults.seed = static_cast<std::uint64_t>(seed);
    const Simulation result = simulate(step.program, step.times, eight_gpu_nodes(4), options);
    EXPECT_EQ(result.deadlock, "");
    sum += to_seconds(result.step).value;
  }
  return sum / kSeeds;
}

TEST(ProfiledPipeline, StepsAreWithinFourPercentOfTheMeasuredOnes) {
  std::ifstream file(data_file());
  if (!file) {
    GTEST_SKIP() << "no " << data_file();
  }
  const nlohmann::json data = nlohmann::json::parse(file);
  double error = 0;
  double bias = 0;
  int rows = 0;
  for (const auto& row : data["rows"]) {
    const std::string name = row["model"];
    const std::string model = name.substr(4, name.find(' ') - 4);
    const std::string schedule = row["schedule"];
    Plan plan;
    plan.pipeline = row["pp"];
    plan.virtual_pipeline = row["vpp"];
    plan.micro_batches =
        row["global_batch"].get<std::int64_t>() / row["micro_batch"].get<std::int64_t>();
    if (row["micro_batch"] != profiled_micro_batch(model) || schedule == "zb-h2") {
      continue;
    }
    plan.schedule = schedule == "1f1b"          ? Schedule::kOneForwardOneBackward
                    : schedule == "interleaved" ? Schedule::kInterleaved
                                                : Schedule::kZeroBubbleH1;
    for (const auto& profile : data["header"]["profiled_stage_times"]) {
      if (profile["model"] != model || profile["microbatches"] != plan.micro_batches) {
        continue;
      }
      const PassTimes pass{.forward = picoseconds(profile["t_f_ms"]),
                           .input_gradient = picoseconds(profile["t_b_ms"]),
                           .weight_gradient = picoseconds(profile["t_w_ms"]),
                           .message = picoseconds(profile["t_comm_ms"])};
      const double measured = row["seconds_per_step"];
      const double simulated = simulated_seconds(plan, pass);
      fmt::print("{} {:<5} {:<11} m {:>3}: measured {:.3f} s, simulated {:.3f} s ({:+.1f} %)\n",
                 row["id"].get<std::string>(), model, schedule, plan.micro_batches, measured,
                 simulated, 100 * (simulated / measured - 1));
      error += std::abs(simulated / measured - 1);
      bias += simulated / measured - 1;
      ++rows;
    }
  }
  ASSERT_GE(rows, 15);
  fmt::print("{} rows: mean absolute error {:.2f} %, mean error {:+.2f} %\n", rows,
             100 * error / rows, 100 * bias / rows);
  EXPECT_LE(error / rows, 0.04);
}

}  // namespace
}  // namespace trireme::sim
