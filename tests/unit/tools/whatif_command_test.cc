// What `whatif` promises: its keys, ratios that mean what they say, elasticities on cases whose
// answer is known.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/unit/tools/command.h"
#include "tools/break_even.h"
#include "tools/program.h"
#include "tools/scaling_curves.h"
#include "tools/variation.h"

namespace trireme::tools {
namespace {

nlohmann::json report(const std::vector<std::string>& arguments,
                      const std::vector<std::string>& more) {
  const Answer answer = run_command(arguments, more);
  EXPECT_EQ(answer.err, "");
  return nlohmann::json::parse(answer.out);
}

const std::vector<std::string> kOnTwoNodes = {
    "whatif",   "--model", "llama-3.1-8b", "--cluster", "dgx-h100x2",     "--json", "--keep-layout",
    "--layout", "tp8.dp2", "--seq",        "2048",      "--global-batch", "32"};

TEST(Variation, ReadsNamesAndValues) {
  const Variation variation = parse_variation("nic_bandwidth=0.5x,1x,400 Gbit/s");
  EXPECT_EQ(variation.name, "nic_bandwidth");
  EXPECT_EQ(variation.values, (std::vector<std::string>{"0.5x", "1x", "400 Gbit/s"}));
  EXPECT_EQ(crossed({variation, parse_variation("seq=1,2")}).size(), 6U);
  for (const char* wrong :
       {"", "nic_bandwidth", "nic_bandwidth=", "nic_bandwidth=1x,,2x", "speed=2x"}) {
    EXPECT_THROW(parse_variation(wrong), Error) << wrong;
  }
}

TEST(WhatIf, PrintsTheContractsKeys) {
  const nlohmann::json json =
      report(kOnTwoNodes, {"--vary", "nic_bandwidth=0.25x,1x", "--vary", "seq=1024,2048"});
  EXPECT_EQ(json["schema"], "trireme.whatif/1");
  ASSERT_EQ(json["cases"].size(), 4U);
  const double base = json["base"]["time"]["step_seconds"];
  for (const auto& entry : json["cases"]) {
    const double step = entry["estimate"]["time"]["step_seconds"];
    EXPECT_NEAR(entry["step_ratio"].get<double>(), step / base, 1e-12);
    EXPECT_TRUE(entry["notes"].is_array());
  }
  EXPECT_EQ(json["cases"][0]["change"],
            (nlohmann::json{{"nic_bandwidth", "0.25x"}, {"seq", "1024"}}));
  EXPECT_NEAR(json["cases"][3]["step_ratio"].get<double>(), 1.0,
              1e-12);                                            // 1x and the base's own sequence
  EXPECT_GT(json["cases"][1]["step_ratio"].get<double>(), 1.0);  // a quarter of the NIC
}

TEST(WhatIf, ElasticitiesOnCasesWithAKnownAnswer) {
  // Long sequences on one GPU group: nearly all of the step is matrix products, none of it the
  // network.
  const std::vector<std::string> compute = {
      "whatif", "--model",        "llama-3.1-8b", "--cluster", "dgx-h100x1",
      "--json", "--keep-layout",  "--layout",     "fsdp8.mb4", "--seq",
      "8192",   "--global-batch", "64",           "--vary",    "seq=8192"};
  const nlohmann::json bound_by_compute = report(compute, {})["elasticity"];
  EXPECT_LT(bound_by_compute["peak_flops"].get<double>(), -0.8);
  EXPECT_EQ(bound_by_compute["nic_bandwidth"].get<double>(), 0);
  // Parameters gathered over NICs of a hundredth of the bandwidth: the step is their time.
  const std::vector<std::string> network = {
      "whatif", "--model",        "llama-3.1-8b", "--cluster",  "dgx-h100x2",
      "--json", "--keep-layout",  "--layout",     "fsdp16.mb1", "--seq",
      "512",    "--global-batch", "16",           "--vary",     "nic_bandwidth=0.01x"};
  const nlohmann::json bound_by_nic = report(network, {})["cases"][0]["elasticity"];
  EXPECT_NEAR(bound_by_nic["nic_bandwidth"].get<double>(), -1, 0.2);
  EXPECT_NEAR(bound_by_nic["peak_flops"].get<double>(), 0, 0.1);
  // A pipeline of one micro-batch idles three quarters of the time, yet idle time is other stages'
  // compute: it shrinks with the compute.
  const std::vector<std::string> bubble = {"whatif",
                                           "--model",
                                           "llama-3.1-8b",
                                           "--cluster",
                                           "dgx-h100x1",
                                           "--json",
                                           "--keep-layout",
                                           "--layout",
                                           "pp4.fsdp2.mb1",
                                           "--seq",
                                           "8192",
                                           "--global-batch",
                                           "2",
                                           "--vary",
                                           "seq=8192"};
  const nlohmann::json bound_by_bubble = report(bubble, {});
  EXPECT_GT(bound_by_bubble["base"]["time"]["breakdown_seconds"]["pipeline_bubble"].get<double>(),
            0.4 * bound_by_bubble["base"]["time"]["step_seconds"].get<double>());
  EXPECT_LT(bound_by_bubble["elasticity"]["peak_flops"].get<double>(), -0.5);
}

TEST(WhatIf, StragglersAreTheirOwnCases) {
  const nlohmann::json json =
      report(kOnTwoNodes, {"--straggler", "1.5x@rank3", "--straggler", "1x@rank3"});
  ASSERT_EQ(json["cases"].size(), 2U);
  EXPECT_GT(json["cases"][0]["step_ratio"].get<double>(), 1.1);
  EXPECT_NEAR(json["cases"][1]["step_ratio"].get<double>(), 1.0, 1e-12);
}

TEST(WhatIf, PlansAgain) {
  const std::vector<std::string> plans = {
      "whatif", "--model", "llama-3.1-8b",    "--cluster",      "dgx-h100x1",
      "--json", "--vary",  "memory=1x,0.35x", "--global-batch", "16"};
  const nlohmann::json json = report(plans, {});
  EXPECT_NEAR(json["cases"][0]["step_ratio"].get<double>(), 1.0, 1e-9);
  const auto& small = json["cases"][1];
  ASSERT_FALSE(small["estimate"].is_null());
  EXPECT_TRUE(small["estimate"]["fits"].get<bool>());
  EXPECT_GE(small["step_ratio"].get<double>(), 1.0);
}

TEST(WhatIf, WrongChangesAreOneLine) {
  for (const std::string wrong : {"speed=2x", "nic_bandwidth=fast", "nic_bandwidth=0x", "seq=-4",
                                  "precision=int3", "gpu=voodoo2", "gpus=0", "recompute=some"}) {
    const Answer answer = run_command(kOnTwoNodes, {"--vary", wrong});
    EXPECT_EQ(answer.code, kWrongInput) << wrong;
    EXPECT_EQ(std::count(answer.err.begin(), answer.err.end(), '\n'), 1) << answer.err;
  }
  EXPECT_EQ(run_command(kOnTwoNodes, {}).code, kWrongInput);
}

// Its framework and precision stand in the plan file's job.
TEST(WhatIf, AnotherFrameworkOfAPlanFilesJob) {
  const std::string plan = testing::TempDir() + "whatif_framework.json";
  ASSERT_EQ(run_command({"plan", "--model", "llama-3.1-8b", "--cluster", "dgx-h100x1", "--seq",
                         "2048", "--global-batch", "16", "-o", plan})
                .code,
            kDone);
  const auto json = report({"whatif", plan, "--json"}, {"--vary", "framework=trireme,fsdp2"});
  ASSERT_EQ(json["cases"].size(), 2U);
  EXPECT_NEAR(json["cases"][0]["step_ratio"].get<double>(), 1, 1e-9);
  EXPECT_NE(json["cases"][1]["step_ratio"].get<double>(), 1);
}

// accelerate was shown with pipelines that its file cannot say, DeepSpeed with "no layout fits"
// where none is legal.
TEST(WhatIf, AnotherFrameworkIsShownWithWhatItCanBeTold) {
  const std::vector<std::string> job = {
      "whatif",         "--model",
      "llama-3.1-8b",   "--cluster",
      "dgx-h100x2",     "--json",
      "--seq",          "8192",
      "--global-batch", "64",
      "--layout",       "tp2.pp2.fsdp4.mb1",
      "--vary",         "framework=accelerate,deepspeed,torchtitan"};
  for (const std::vector<std::string>& kept : {std::vector<std::string>{}, {"--keep-layout"}}) {
    const auto cases = report(job, kept)["cases"];
    ASSERT_EQ(cases.size(), 3U);
    EXPECT_TRUE(cases[0]["estimate"].is_null()) << cases[0]["notes"];
    EXPECT_TRUE(cases[1]["estimate"].is_null()) << cases[1]["notes"];
    EXPECT_TRUE(cases[2]["estimate"].is_object()) << cases[2]["notes"];
    const std::string first = cases[0]["notes"].dump(), second = cases[1]["notes"].dump();
    EXPECT_NE(first.find("pipeline"), std::string::npos) << first;
    // Its pipeline beside fsdp: by name where the layout is kept, as no legal one where it is
    // planned.
    EXPECT_NE(second.find(kept.empty() ? "no layout is legal" : "ZeRO stage 1 at most"),
              std::string::npos)
        << second;
    EXPECT_EQ(second.find("no layout fits"), std::string::npos) << second;
  }
}

// A cluster of its own size, planned again: what a machine that one could rent would do.
TEST(WhatIf, AnotherClusterIsPlannedAgain) {
  const auto json = report({"whatif", "--model", "llama-3.1-8b", "--cluster", "dgx-h100x2",
                            "--json", "--seq", "2048", "--global-batch", "64"},
                           {"--vary", "cluster=dgx-h100x4,dgx-a100-80gbx2"});
  ASSERT_EQ(json["cases"].size(), 2U);
  EXPECT_EQ(json["cases"][0]["estimate"]["cluster"]["gpus"], 32);
  EXPECT_LT(json["cases"][0]["step_ratio"].get<double>(), 0.7);
  EXPECT_GT(json["cases"][1]["step_ratio"].get<double>(), 1.3);
}

// ---- scaling, break-even points, purchases, prices ------------------------------------------

// Amdahl's law with a serial share of 1 %: 1 % more buys 0.5 % where (1 - s) / n = s, n = 99. Of
// 64, 128 and 256, rate^2 / n is 24.1, 24.8 and 20.3.
TEST(Scaling, KneeIsWhereHalfOfWhatIsAddedPays) {
  const auto amdahl = [](double gpus) { return Speed{gpus, 1 / (0.01 + 0.99 / gpus)}; };
  EXPECT_EQ(knee_of({amdahl(16), amdahl(64), amdahl(128), amdahl(256), amdahl(512)}), 2U);
  EXPECT_EQ(knee_of({{1, 1}, {2, 2}, {4, 4}, {8, 8}}), std::nullopt);  // no end in sight
  EXPECT_EQ(knee_of({{8, 1}, {16, 1.2}, {32, 1.3}}), 0U);
  EXPECT_EQ(knee_of({{8, 1}}), std::nullopt);
  EXPECT_EQ(knee_of({}), std::nullopt);
}

TEST(Scaling, ReadsSizes) {
  EXPECT_EQ(parse_scaling("auto", 64), (std::vector<std::int64_t>{16, 32, 64, 128, 256, 512}));
  EXPECT_EQ(parse_scaling("auto", 2), (std::vector<std::int64_t>{1, 2, 4, 8, 16}));
  EXPECT_EQ(parse_scaling("64,8,64", 8), (std::vector<std::int64_t>{8, 64}));
  for (const char* wrong : {"", "8,,16", "0", "many", "-8"}) {
    EXPECT_THROW(parse_scaling(wrong, 8), Error) << wrong;
  }
}

const std::vector<std::string> kOneNode = {"whatif",         "--model", "llama-3.1-8b", "--cluster",
                                           "dgx-h100x1",     "--json",  "--seq",        "4096",
                                           "--global-batch", "64"};

TEST(Scaling, CurvesAreWhatTheyAreCalled) {
  const auto json = report(kOneNode, {"--scaling", "2,8,32"});
  const auto& base = json["base"];
  const double step = base["time"]["step_seconds"];
  const double compute = base["time"]["breakdown_seconds"]["compute"];
  for (const char* name : {"strong", "weak"}) {
    const bool weak = std::string(name) == "weak";
    const auto& points = json["scaling"][name]["points"];
    ASSERT_EQ(points.size(), 3U);
    for (const auto& point : points) {
      const double gpus = point["gpus"];
      const double batches = weak ? gpus / 8 : 1;
      EXPECT_DOUBLE_EQ(point["global_batch"], 64 * batches);
      // F19: the base's 8 GPUs' compute over the GPUs, its communication by log2 of them.
      EXPECT_NEAR(point["f19_seconds"].get<double>(),
                  compute * 8 * batches / gpus + (step - compute) / 3 * std::log2(gpus),
                  1e-9 * step);
      if (!point["layout"].is_null()) {
        const double rate = 64 * batches * 4096 / point["step_seconds"].get<double>();
        EXPECT_NEAR(point["speedup"].get<double>(), rate / (64 * 4096 / step), 1e-9);
        EXPECT_NEAR(point["efficiency"].get<double>(), point["speedup"].get<double>() * 8 / gpus,
                    1e-9);
      }
    }
    EXPECT_EQ(points[1]["layout"].is_null(), false);
    EXPECT_NEAR(points[1]["step_seconds"].get<double>(), step, 1e-9 * step);  // the base itself
  }
  EXPECT_GT(json["scaling"]["strong"]["points"][2]["speedup"].get<double>(), 3);
}

// A workstation without a network is one node: more GPUs than it has are no machine.
TEST(Scaling, NodesWithoutANetworkDoNotGrow) {
  const std::vector<std::string> alone = {"whatif",    "--model", "gpt2", "--cluster",
                                          "rtx3090x1", "--seq",   "1024", "--global-batch",
                                          "32",        "--json"};
  const Answer wrong = run_command(alone, {"--vary", "gpus=8"});
  EXPECT_EQ(wrong.code, kWrongInput);
  EXPECT_NE(wrong.err.find("no network"), std::string::npos) << wrong.err;
  const auto points = report(alone, {"--scaling", "4,8"})["scaling"]["strong"]["points"];
  EXPECT_FALSE(points[0]["layout"].is_null());
  EXPECT_TRUE(points[1]["layout"].is_null());
}

TEST(BreakEven, BisectionFindsEveryChange) {
  const auto text = [](double factor) {
    return std::string(factor < 0.37 ? "a" : factor < 2.5 ? "b" : factor < 2.6 ? "c" : "d");
  };
  const auto changes = find_changes(0.1, 10, 5, 2, text);
  ASSERT_EQ(changes.size(), 3U);
  const double expected[] = {0.37, 2.5, 2.6};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(changes[i].factor / expected[i], 1, 1e-3);
  }
  EXPECT_EQ(changes[1].before, "b");
  EXPECT_EQ(changes[1].after, "c");
  EXPECT_TRUE(find_changes(0.1, 10, 5, 1, [](double) { return std::string("same"); }).empty());
}

// Just below the point the layout before is the best, just above it the one after.
TEST(BreakEven, LayoutsHandOverWhereItSays) {
  const auto json = report(kOneNode, {"--break-even", "memory=0.5x,2x"});
  ASSERT_FALSE(json["break_even"].empty());
  const auto& change = json["break_even"][0];
  EXPECT_EQ(change["resource"], "memory");
  const double factor = change["factor"];
  const auto asked = report(
      kOneNode, {"--vary", fmt::format("memory={:.6f}x,{:.6f}x", factor * 0.998, factor * 1.002)});
  const auto layout_at = [&](std::size_t at) {
    const auto& layout = asked["cases"][at]["estimate"]["layout"];
    return std::pair<int, std::string>(layout["tp"].get<int>(), layout.dump());
  };
  EXPECT_NE(layout_at(0).second, layout_at(1).second);
}

// 24 GPUs were to be multiplied for what a batch that they divide gives.
TEST(Purchases, ABatchThatTheGpusDoNotDivideIsSaid) {
  std::vector<std::string> three = kOneNode;
  *std::find(three.begin(), three.end(), "dgx-h100x1") = "dgx-h100x3";
  const auto said = report(three, {"--faster", "5%"})["faster"]["remarks"];
  ASSERT_FALSE(said.empty());
  EXPECT_EQ(said[0].get<std::string>().rfind("base: batch 64 divides badly", 0), 0U) << said;
  EXPECT_TRUE(report(kOneNode, {"--faster", "5%"})["faster"]["remarks"].empty());
}

// The least that is enough is enough, and a hundredth less is not.
TEST(Purchases, AreTheLeastThatIsEnough) {
  const auto json = report(kOneNode, {"--faster", "5%"});
  EXPECT_DOUBLE_EQ(json["faster"]["share"], 0.05);
  bool checked = false;
  bool gpus = false;
  for (const auto& purchase : json["faster"]["purchases"]) {
    if (!purchase["reaches"]) {
      EXPECT_TRUE(purchase["step_ratio"].is_null() || purchase["step_ratio"] > 0.95);
      continue;
    }
    EXPECT_LE(purchase["step_ratio"].get<double>(), 0.95);
    if (purchase["resource"] == "peak_flops") {
      const double factor = std::stod(purchase["value"].get<std::string>());
      const auto less =
          report(kOneNode, {"--vary", fmt::format("peak_flops={:.5f}x", factor * 0.99)});
      EXPECT_GT(less["cases"][0]["step_ratio"].get<double>(), 0.95);
      checked = true;
    }
    gpus = gpus || (purchase["resource"] == "gpus" && purchase["value"] == "16");
  }
  EXPECT_TRUE(checked);
  EXPECT_TRUE(gpus);
}

// $ per million tokens = price x GPUs / 3600 / (tokens per second) x 1e6; at the break-even price a
// token costs what it costs on the base.
TEST(Prices, BreakEvenPriceCostsTheSame) {
  const auto json =
      report(kOneNode, {"--price", "2.50", "--vary", "cluster=hgx-h200x1=3.40,dgx-a100-80gbx1"});
  const auto dollars = [](const nlohmann::json& estimate, double price) {
    return price * estimate["cluster"]["gpus"].get<double>() / 3600 /
           estimate["throughput"]["tokens_per_second"].get<double>() * 1e6;
  };
  EXPECT_NEAR(json["dollars_per_million_tokens"].get<double>(), dollars(json["base"], 2.5), 1e-9);
  const auto& priced = json["cases"][0];
  EXPECT_EQ(priced["change"]["cluster"], "hgx-h200x1");
  EXPECT_NEAR(priced["dollars_per_million_tokens"].get<double>(), dollars(priced["estimate"], 3.4),
              1e-9);
  const auto& other = json["cases"][1];
  EXPECT_FALSE(other.contains("dollars_per_million_tokens"));  // no price was given for it
  EXPECT_NEAR(dollars(other["estimate"], other["break_even_dollars_per_gpu_hour"]),
              dollars(json["base"], 2.5), 1e-9);
}

TEST(WhatIf, WrongQuestionsAreOneLine) {
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"--scaling", "some"},
                                                {"--break-even", "seq"},
                                                {"--break-even", "nic_bandwidth=2x"},
                                                {"--break-even", "nic_bandwidth=2x,1x"},
                                                {"--break-even", "memory", "--keep-layout"},
                                                {"--faster", "0%"},
                                                {"--faster", "very"},
                                                {"--faster", "2x"},
                                                {"--price", "cheap", "--faster", "5%"},
                                                {"--vary", "cluster=dgx-h100x2=cheap"}}) {
    expect_one_line(run_command(kOneNode, wrong), kWrongInput, wrong[0].substr(2));
  }
}

// "there is no 'cp'": the degrees of a layout could not be varied.
TEST(WhatIfDegrees, VaryPlannedAnewAndKept) {
  const std::string job =
      "whatif --model llama-3.1-8b --cluster dgx-h100x2 --seq 8192 --global-batch 32 "
      "--vary cp=1,2,4 --json";
  for (const char* more : {"", " --layout fsdp16.mb1 --keep-layout"}) {
    const Answer answer = run_words(job + more);
    ASSERT_EQ(answer.code, 0) << answer.err;
    const auto cases = nlohmann::json::parse(answer.out).at("cases");
    ASSERT_EQ(cases.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(cases[i].at("estimate").at("layout").at("cp"), 1 << i) << more;
    }
  }
}

// Racks of 72 were filled one after the other, where --gpus takes as many of each: 512 GPUs of
// eight racks took 3.762 s beside the 3.587 that `plan` gives.
TEST(Purchases, RacksAreFilledAsUnderGpus) {
  const auto cases = nlohmann::json::parse(
                         run_words("whatif --model llama-3.1-8b --cluster dgx-h100x16 --seq 8192 "
                                   "--global-batch 128 --vary gpu=gb200-nvl72 --json")
                             .out)
                         .at("cases");
  const auto plan = nlohmann::json::parse(
      run_words("plan --model llama-3.1-8b --cluster gb200-nvl72x2 --gpus 128 --seq 8192 "
                "--global-batch 128 --json")
          .out);
  EXPECT_DOUBLE_EQ(cases[0].at("estimate").at("time").at("step_seconds").get<double>(),
                   plan.at("best").at("time").at("step_seconds").get<double>());
}

}  // namespace
}  // namespace trireme::tools
