// What `explain` and `estimate` say of a layout.
#include <fmt/format.h>

#include "tests/unit/tools/planned.h"

namespace trireme::tools {
namespace {

using nlohmann::json;

TEST(ExplainCommand, SaysInSentencesWhatBindsAndWhatWouldFlip) {
  const Exported result = run_words("explain " + kEight);
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* words : {"Time: compute takes", "Memory: stage", "Beside it:", "--formulas"}) {
    EXPECT_NE(result.out.find(words), std::string::npos) << words << "\n" << result.out;
  }
  EXPECT_EQ(result.out.find("F13"), std::string::npos);
  const Exported formulas = run_words("explain --formulas " + kEight);
  EXPECT_NE(formulas.out.find("F13"), std::string::npos);
}

TEST(ExplainCommand, WhatDoesNotFitIsSaidBeforeWhatItWouldTake) {
  const std::string job =
      "explain --model llama-3.1-8b --cluster dgx-h100x1 --global-batch 32 --seq 131072 "
      "--framework megatron ";
  const std::string out = run_words(job + "--against tp8.mb1").out;
  EXPECT_NE(out.find("Beside it: tp8.mb1 does not fit: "), std::string::npos) << out;
  // Why an axis is there: the layout without it that would be faster does not fit.
  const auto why = out.find("Why cp 2: without it ");
  ASSERT_NE(why, std::string::npos) << out;
  EXPECT_NE(out.find("does not fit", why), std::string::npos) << out;
  EXPECT_NE(out.find("the best without it, ", why), std::string::npos) << out;
}

TEST(ExplainCommand, TheFirstThatIsNotTheFastestHasItsReason) {
  const std::string job =
      "--model llama-3.1-8b --cluster dgx-h100x4 --global-batch 32 --seq 131072 ";
  const json plan = plan_of(job);
  ASSERT_TRUE(plan["recommendation"].is_string());
  const std::string out = run_words("explain " + job).out;
  EXPECT_NE(out.find("Why not the fastest: " + plan["recommendation"].get<std::string>()),
            std::string::npos)
      << out;
}

TEST(ExplainCommand, OneSymbolHasOneValue) {
  for (const char* layout : {"fsdp8.mb1", "tp2.fsdp4.mb1.zero1", "tp2.pp2.dp2.mb1"}) {
    const json why =
        json::parse(run_words(std::string("explain --json --layout ") + layout + " " + kEight).out);
    const double optimum = why["formulas"]["F20"]["given"];
    const std::string rule = why["rules"][1]["why"];
    EXPECT_NE(rule.find(fmt::format("tensor parallelism of {:.1f} best", optimum)),
              std::string::npos)
        << optimum << " " << rule;
  }
}

// F23 said ZeRO-2 and agreed where only the optimizer's states were sharded.
TEST(ExplainCommand, ZeroOneIsNotCalledZeroTwo) {
  for (const auto& [layout, framework] : {std::pair{"fsdp8.mb1.zero1", "deepspeed"},
                                          {"fsdp8.mb1.zero2", "deepspeed"},
                                          {"fsdp8.mb1.zero1", "megatron"},
                                          {"fsdp8.mb1", "fsdp2"}}) {
    const json why = json::parse(run_words(std::string("explain --json --model llama-3.1-8b "
                                                       "--cluster dgx-h100x1 --seq 2048 "
                                                       "--global-batch 8 --layout ") +
                                           layout + " --framework " + framework)
                                     .out);
    const json& rule = why["rules"][2];
    const std::string says = rule["says"], form = layout;
    const int stage = form.ends_with("zero1") ? 1 : form.ends_with("zero2") ? 2 : 3;
    const bool same = says.find(fmt::format("ZeRO-{}", stage)) != std::string::npos;
    EXPECT_EQ(rule["agrees"].get<bool>(), same) << layout << framework << rule;
  }
}

TEST(ExplainCommand, AdaptersAreTakenAsByPlan) {
  const std::string job = kEight + "--lora-rank 16";
  const json why = json::parse(run_words("explain --json " + job).out);
  EXPECT_EQ(why["estimate"]["layout"]["short"], plan_of(job)["best"]["layout"]["short"]);
}

// "P_t* = 3.2, A/(d/P) = 0.4, m = 16 against 4 P_p = 4", with a legend below.
TEST(ExplainCommand, RulesOfThumbAreSaidInWords) {
  for (const char* layout : {"fsdp8.mb1.rc-full", "tp2.fsdp4.mb1", "dp8.mb1", "tp8.mb1"}) {
    const std::string out =
        run_words(std::string("explain --model llama-3.1-8b --cluster dgx-h100x1 --layout ") +
                  layout)
            .out;
    EXPECT_NE(out.find("F22 "), std::string::npos) << out;
    for (const char* symbol : {"P_t", "P_p", "d/P", "m ="}) {
      EXPECT_EQ(out.find(symbol), std::string::npos) << symbol << "\n" << out;
    }
  }
}

TEST(ExplainCommand, ALimitOverTensorParallelismNeedsSome) {  // was "limit inf"
  const Exported result = run_words("explain --formulas --layout fsdp8.mb1 " + kEight);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("no limit without tensor"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find(" inf"), std::string::npos) << result.out;
}

TEST(ExplainCommand, APlanFileIsComparedWithTheRunnerUpNotWithItself) {
  const std::string file = testing::TempDir() + "explained.json";
  plan_of(kEight + "-o " + file);
  const Exported result = run_words("explain --json " + file);
  ASSERT_EQ(result.code, 0) << result.err;
  const json why = json::parse(result.out);
  EXPECT_NE(why["rival"]["layout"], why["estimate"]["layout"]);
  EXPECT_NE(why["rival"]["step_seconds"], why["estimate"]["time"]["step_seconds"]);
}

TEST(EstimateCommand, TheLimitIsBelowTheStepAndAddsUp) {
  const Exported result = run_words("estimate --json --fsdp 8 " + kEight);
  ASSERT_EQ(result.code, 0) << result.err;
  const json estimate = json::parse(result.out);
  double sum = 0;
  for (const json& item : estimate["limit"]["items"]) {
    sum += item["seconds"].get<double>();
  }
  const double step = estimate["time"]["step_seconds"];
  EXPECT_NEAR(sum, estimate["limit"]["seconds"].get<double>(), 1e-12);
  EXPECT_NEAR(estimate["limit"]["share"].get<double>(), sum / step, 1e-12);
  // The optimizer of 8.03 B parameters on 8 GPUs, 4 + 8 + 16 + 2 bytes each at 3.35 TB/s: 9 ms.
  EXPECT_NEAR(sum - step * estimate["throughput"]["mfu"].get<double>(), 0.009, 0.0005);
}

}  // namespace
}  // namespace trireme::tools
