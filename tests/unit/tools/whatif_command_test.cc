// What `whatif` promises: its keys, ratios that mean what they say, elasticities on cases whose
// answer is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/unit/tools/command.h"
#include "tools/program.h"
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

}  // namespace
}  // namespace trireme::tools
