// The library that others build on, beside the program whose answers it gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "core/error.h"
#include "planner/search/search.h"
#include "tests/unit/tools/command.h"
#include "trireme/trireme.h"

namespace trireme::api {
namespace {

using nlohmann::json;

const Job kJob{.model = "gpt2", .cluster = "dgx-h100x1", .seq = 1024, .global_batch = 64};

std::string file_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Api, AnEstimateIsWhatTheProgramPrints) {
  const Estimate mine = estimate(kJob, {.tp = 2, .micro_batch = 4});
  const json printed =
      tools::json_of({"estimate", "--json", "--model", "gpt2", "--cluster", "dgx-h100x1", "--seq",
                      "1024", "--global-batch", "64", "--tp", "2", "--micro-batch", "4"});
  EXPECT_EQ(json::parse(mine.json), printed);
  EXPECT_EQ(mine.time.step_seconds, printed["time"]["step_seconds"].get<double>());
  EXPECT_EQ(mine.memory.peak_allocated_gib, printed["memory"]["peak_allocated_gib"].get<double>());
  EXPECT_EQ(mine.layout.tp, 2);
  EXPECT_EQ(mine.layout.dp, 4);
  EXPECT_TRUE(mine.fits);
}

TEST(Api, PlanSimulateAndWhatIfAnswerAsValues) {
  const Plan best = plan(kJob, {.constraint = {"tp<=2"}, .top = 3});
  ASSERT_TRUE(best.best);
  EXPECT_EQ(best.alternatives.size(), 2U);
  EXPECT_LE(best.best->layout.tp, 2);
  EXPECT_EQ(best.evaluated + best.pruned_by_bound, best.space);
  const Simulation step = simulate(kJob, {.layout = "tp2.dp4.mb1"}, {.straggler = {"1.5x@rank0"}});
  EXPECT_GT(step.estimate.time.step_seconds,
            simulate(kJob, {.layout = "tp2.dp4.mb1"}).estimate.time.step_seconds);
  EXPECT_FALSE(step.ranks.empty());
  const WhatIf answer =
      whatif(kJob, {.layout = {.layout = "dp8.mb1"}, .vary = {"nvlink_bandwidth=0.5x,1x"}});
  ASSERT_EQ(answer.cases.size(), 2U);
  EXPECT_EQ(answer.cases[0].change.at("nvlink_bandwidth"), "0.5x");
  EXPECT_GT(answer.cases[0].step_ratio, answer.cases[1].step_ratio);
}

TEST(Api, ALayoutThatDoesNotFitIsAValue) {
  const Estimate large = estimate({.model = "llama-3.1-70b", .cluster = "dgx-h100x1"}, {.dp = 8});
  EXPECT_FALSE(large.fits);
  EXPECT_EQ(large.fit, "no");
}

TEST(Api, WrongInputIsOneErrorWithTheProgramsLine) {
  const tools::Answer printed =
      tools::run_words("estimate --model gpt2 --cluster dgx-h100x1 --tp 3 --json");
  try {
    estimate({.model = "gpt2", .cluster = "dgx-h100x1"}, {.tp = 3});
    FAIL() << "three does not divide eight";
  } catch (const Error& error) {
    EXPECT_EQ("trireme: " + std::string(error.what()) + "\n", printed.err);
    EXPECT_FALSE(error.machine_lacks());
  }
  EXPECT_THROW(sweep({.model = "gpt3", .cluster = "dgx-h100x1"}), Error);
  EXPECT_THROW(sweep({.model = "gpt2", .cluster = "dgx-h100x1", .more = {"--no-such"}}), Error);
  EXPECT_THROW(check("/no/such/file.sh"), Error);
}

TEST(Api, ModelsAndClustersArePresets) {
  const std::vector<Model> all = models();
  EXPECT_TRUE(
      std::any_of(all.begin(), all.end(), [](const Model& m) { return m.name == "llama-3.1-8b"; }));
  EXPECT_EQ(model("gpt2").layers, 12);
  const std::vector<Cluster> machines = clusters();
  const auto h100 = std::find_if(machines.begin(), machines.end(),
                                 [](const Cluster& c) { return c.name == "dgx-h100"; });
  ASSERT_NE(h100, machines.end());
  EXPECT_EQ(h100->gpus_per_node, 8);
}

// A training script has a configuration, not a file.
TEST(Api, TheTextOfAModelOrATopologyIsReadLikeItsFile) {
  const std::string text =
      R"({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024,
                               "vocab_size": 50257})";
  const tools::TestFolder folder;
  Job of_text = kJob;
  of_text.model = text;
  Job of_file = kJob;
  of_file.model = folder.file("config.json", text);
  EXPECT_EQ(estimate(of_text).time.step_seconds, estimate(of_file).time.step_seconds);
  of_text.model = R"({"model_type": "gpt2", "n_layer": -1})";
  EXPECT_THROW(estimate(of_text), Error);
  Job odd = kJob;
  odd.cluster = R"({"format": "trireme.topology/2"})";
  try {
    estimate(odd);
    FAIL() << "there is no such format";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("--cluster"), 0U) << error.what();
  }
}

TEST(Api, ALaunchFileIsChecked) {
  const tools::TestFolder folder;
  const std::string plan_file = folder.path("plan.json");
  tools::json_of({"plan", "--json", "--model", "gpt2", "--cluster", "dgx-h100x1", "--global-batch",
                  "64", "--framework", "megatron", "-o", plan_file});
  ASSERT_EQ(tools::run_command({"export", plan_file, "-o", folder.path("run.sh")}).code, 0);
  const Check answer = check(folder.path("run.sh"), {.cluster = "dgx-h100x1"});
  EXPECT_TRUE(answer.violations.empty()) << answer.json;
  ASSERT_TRUE(answer.estimate);
}

TEST(Api, ALogIsFitted) {
  const tools::TestFolder folder;
  std::string log =
      "# nThread 1 nGpus 8 minBytes 1048576 maxBytes 1073741824 step: 4(factor)\n#\n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     "
      "time   "
      "algbw   busbw #wrong\n";
  for (const auto& [bytes, microseconds] : {std::pair(1048576, 45.1),
                                            {4194304, 62.0},
                                            {16777216, 115.0},
                                            {67108864, 310.0},
                                            {268435456, 1050.0}}) {
    const double rate = bytes / microseconds / 1000;
    std::array<char, 200> line{};
    std::snprintf(
        line.data(), line.size(),
        "%12d %13d     float     sum      -1 %8.2f %7.2f %7.2f      0 %8.2f %7.2f %7.2f      0\n",
        bytes, bytes / 4, microseconds, rate, rate * 1.75, microseconds, rate, rate * 1.75);
    log += line.data();
  }
  const std::string path = folder.file("all_reduce.log", log);
  const std::string profile = folder.path("profile.json");
  const Calibration answer = calibrate({.cluster = "dgx-h100x1", .more = {"--op", "all_reduce"}},
                                       {.output = profile, .fit = {path}});
  EXPECT_EQ(answer.profile, profile);
  Job job = kJob;
  job.calibration = profile;
  EXPECT_GT(estimate(job).time.step_seconds, 0);
  EXPECT_FALSE(file_text(profile).empty());
}

TEST(Api, ASweepHoldsEveryLayoutAndPlansBest) {
  const SweepOptions narrow{.layout = {}, .constraint = {"tp<=2"}, .threads = 2};
  const Sweep table = sweep(kJob, narrow);
  const Plan best = plan(kJob, {.constraint = {"tp<=2"}, .keep_switches = true});
  ASSERT_EQ(static_cast<std::int64_t>(table.layouts()), best.space);
  double least = 1e9;
  for (std::size_t i = 0; i < table.layouts(); ++i) {
    EXPECT_LE(table.tp[i], 2);
    EXPECT_EQ(table.tp[i] * table.pp[i] * table.cp[i] * table.fsdp[i] * table.dp[i], 8);
    if (Sweep::fit_names[table.fit[i]] == std::string("fits")) {
      least = std::min(least, table.step_seconds[i]);
    }
  }
  EXPECT_LE(least, best.best->time.step_seconds);
  EXPECT_GT(least * 1.02, best.best->time.step_seconds);
  EXPECT_EQ(sweep(kJob, {.layout = {}, .constraint = {"tp<=2"}, .threads = 1}).step_seconds,
            table.step_seconds);
}

TEST(Api, ThreadsAskAtOnceAndGetTheSameAnswers) {
  const std::string expected = estimate(kJob, {.tp = 2}).json;
  std::vector<int> wrong(16, 0);
  std::vector<std::thread> threads;
  for (int& mine : wrong) {
    threads.emplace_back([&mine, &expected] {
      for (int i = 0; i < 5; ++i) {
        mine += estimate(kJob, {.tp = 2}).json == expected ? 0 : 1;
        try {
          estimate(kJob, {.tp = 3});
          ++mine;
        } catch (const Error&) {
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, std::vector<int>(16, 0));
}

}  // namespace
}  // namespace trireme::api
