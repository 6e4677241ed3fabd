// A layout that `plan` names, told to the other commands: each says of it what `plan` says, and
// with which switches.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/unit/tools/command.h"
#include "tests/unit/tools/planned.h"

namespace trireme::tools {
namespace {

using nlohmann::json;

double step_of(const json& estimate) {
  return estimate["time"]["step_seconds"].get<double>();
}

// Switches were chosen by how one asked: a row of the free plan, asked for by --layout, lacked
// expandable segments and TP overlap; `explain` and `estimate` of it knew of none.
TEST(ToldLayouts, PlanExplainAndEstimateAgreeOnSwitches) {
  for (const char* framework : {"megatron", "torchtitan"}) {
    const std::string job = kEight + "--framework " + framework + " ";
    const json plan = plan_of(job);
    ASSERT_GE(plan["alternatives"].size(), 2U) << job;
    for (const std::size_t row : {0, 1, 2}) {
      const json& asked = row == 0 ? plan["best"] : plan["alternatives"][row - 1];
      const std::string form = asked["layout"]["short"];
      const json told = json::parse(run_words("estimate --json " + job + "--layout " + form).out);
      EXPECT_NEAR(told["with_switches"]["step_seconds"].get<double>() / step_of(asked), 1, 2e-6)
          << form;
      EXPECT_EQ(told["with_switches"]["fit"], asked["fit"]) << form;
    }
    const json& asked = plan["alternatives"][0];
    const std::string form = asked["layout"]["short"];
    const json explained =
        json::parse(run_words("explain --json " + job + "--layout " + form).out)["estimate"];
    EXPECT_NEAR(step_of(explained) / step_of(asked), 1, 2e-6) << form;
    EXPECT_EQ(explained["fit"], asked["fit"]) << form;
  }
}

TEST(ToldLayouts, EstimateSaysWhichSwitchesItAssumes) {
  const std::string job =
      "--model llama-3.1-70b --cluster dgx-h100x8 --global-batch 512 --seq 8192 --framework "
      "megatron --layout tp8.pp2.fsdp4.mb1.zero1 ";
  const std::string plain = run_words("estimate " + job).out;
  EXPECT_NE(plain.find("switches: as megatron starts and --set says; with those that `plan` "
                       "switches on this layout takes "),
            std::string::npos)
      << plain;
  EXPECT_NE(plain.find("--set tp_comm_overlap=true"), std::string::npos) << plain;
  const std::string own = run_words(
                              "estimate --model llama-3.1-8b --cluster dgx-h100x1 --seq 4096 "
                              "--sharding full")
                              .out;
  EXPECT_EQ(own.find("switches:"), std::string::npos) << own;
}

// The published layout of 405B under fp8 "does not fit", and nothing said that it ran with 16-bit
// gradients and weights in 8 bits.
TEST(ToldLayouts, WhatDoesNotFitSaysWithWhichSettingsItWould) {
  const std::string job =
      "--model llama-3.1-405b --cluster dgx-h100x64 --framework megatron --precision fp8 --seq "
      "8192 --global-batch 256 --tp 8 --pp 8 --vpp 8 --cp 2 --keep-switches --top 1 ";
  const std::string form = "tp8.pp8.vpp8.cp2.fsdp4.mb1.zero1";
  const json plan = json::parse(run_words("plan --json " + job + "--against " + form).out);
  const std::string would_fit = plan["against"]["would_fit"];
  ASSERT_NE(would_fit.find("--set "), std::string::npos) << would_fit;
  // What it names is computed: the same job with it is surer to fit.
  std::string settings;
  for (auto at = would_fit.find("--set "); at != std::string::npos;
       at = would_fit.find("--set ", at + 1)) {
    const auto end = would_fit.find_first_of(" :", at + 6);
    settings += would_fit.substr(at, end - at) + " ";
  }
  const json with =
      json::parse(run_words("plan --json " + job + settings + "--against " + form).out);
  EXPECT_EQ(plan["against"]["estimate"]["fit"], "no");
  EXPECT_NE(with["against"]["estimate"]["fit"], "no") << settings;
}

// "each wish can be met by itself, but no layout meets all of them", and nothing else.
TEST(ToldLayouts, WishesThatDoNotGoTogetherAreNamedWithTheRule) {
  const std::string job =
      "--model deepseek-v3 --cluster dgx-h100x32 --framework megatron --global-batch 2048 ";
  const json plan = plan_of(job + "--pp 16 --ep 64", 1);
  ASSERT_EQ(plan["reasons"].size(), 1U) << plan["reasons"];
  const std::string reason = plan["reasons"][0];
  EXPECT_NE(reason.find("pp 16 and ep 64 do not go together: etp 1 x ep 64 does not divide the 16 "
                        "ranks of a stage"),
            std::string::npos)
      << reason;
  // A list of layers for each stage, which was told first, mends nothing.
  const Answer told = run_words("estimate " + job + "--layout pp16.ep64");
  expect_one_line(told, 2, "ep 64 does not divide the 16 ranks of a stage");
}

TEST(ToldLayouts, AProgramThatDoesNotTakeTheJobSaysWhy) {
  const json plan =
      plan_of("--model llama-3.1-8b --cluster dgx-h100x1 --seq 2048 --lora-rank 16 --base nf4");
  const json& megatron = plan["elsewhere"][0];
  EXPECT_EQ(megatron["program"], "Megatron");
  EXPECT_TRUE(megatron["layout"].is_null());
  EXPECT_NE(megatron["reason"].get<std::string>().find("no frozen weights in nf4"),
            std::string::npos)
      << megatron;
}

TEST(ToldLayouts, CasesOfWhatIfHaveAColumnForTheFit) {
  const std::string out = run_words(
                              "whatif --model llama-3.1-8b --cluster dgx-h100x1 --framework "
                              "megatron --keep-layout --layout tp8.mb1 --seq 8192 --vary "
                              "seq=8192,131072")
                              .out;
  const auto head = out.find("memory");
  ASSERT_NE(head, std::string::npos) << out;
  EXPECT_NE(out.substr(head, 20).find("fits"), std::string::npos) << out;
  EXPECT_NE(out.find(" yes\n"), std::string::npos) << out;
  EXPECT_NE(out.find(" no\n"), std::string::npos) << out;
}

// Jobs in turn over frameworks, models, clusters and what else decides a layout.
std::string job_of_turn(std::size_t turn) {
  const std::array frameworks = {
      "trireme",  "megatron", "megatron-fsdp", "megatron-bridge-fsdp", "nemo",      "internevo",
      "nanotron", "fsdp1",    "torchtitan",    "accelerate",           "deepspeed", "fsdp2"};
  const std::array models = {"deepseek-v2-lite",  "qwen3-30b-a3b",  "llama-3.1-8b", "gpt-oss-20b",
                             "ernie-4.5-21b-a3b", "tinyllama-1.1b", "mixtral-8x7b"};
  const std::array clusters = {"dgx-h100x1", "mi300xx8", "dgx-h100x4", "gb200-nvl72x1",
                               "rtx4090x2"};
  const std::array more = {"",
                           "--precision fp8",
                           "--lora-rank 16",
                           "--optimizer adam8bit --precision fp16",
                           "--offload optimizer",
                           "--keep-switches",
                           "--constraint tp=2",
                           "--constraint tp=4 --objective memory"};
  return fmt::format("--framework {} --model {} --cluster {} --seq {} --global-batch {} {} ",
                     frameworks.at(turn % frameworks.size()), models.at(turn % models.size()),
                     clusters.at(turn % clusters.size()), turn % 2 == 0 ? 4096 : 8192,
                     turn % 3 == 0 ? 256 : 64, more.at(turn / 3 % more.size()));
}

// Layouts of experts under tensor parallelism without an expert axis lost their etp 1: 1.73 s
// planned, 2.15 s when given back; full sharding over ranks of cp alone lost its sharding (75 GiB
// and 277). And no part of a step is negative: of frozen tables the gather of a backward that they
// have not was counted as compute and taken from data parallelism.
TEST(ToldLayouts, EveryShortFormThatPlanPrintsSaysItsLayout) {
  std::size_t told = 0;
  for (std::size_t turn = 0; turn < 24; ++turn) {
    std::string job = job_of_turn(turn);
    const json plan = json::parse(run_words("plan --json " + job).out, nullptr, false);
    if (plan.is_discarded() || plan["best"].is_null()) {
      continue;  // nothing fits
    }
    std::vector<json> rows = {plan["best"]};
    rows.insert(rows.end(), plan["alternatives"].begin(), plan["alternatives"].end());
    for (const json& one : plan["switches"]) {
      if (one["applied"].get<bool>()) {
        job += "--set " + one["setting"].get<std::string>() + " ";
      }
    }
    for (const char* of_search :
         {"--keep-switches", "--constraint tp=2", "--constraint tp=4", "--objective memory"}) {
      const std::size_t at = job.find(of_search);
      job.erase(std::min(at, job.size()), at < job.size() ? std::string(of_search).size() : 0);
    }
    for (const json& row : rows) {
      const std::string asked =
          fmt::format("estimate --json {} --gpus {} --layout {}", job,
                      row["cluster"]["gpus"].get<int>(), row["layout"]["short"].get<std::string>());
      const Exported back = run_words(asked);
      ASSERT_EQ(back.code == 0 || back.code == 1, true) << asked << "\n" << back.err;
      const json estimate = json::parse(back.out);
      EXPECT_NEAR(step_of(estimate) / step_of(row), 1, 1e-9) << asked;
      EXPECT_EQ(estimate["memory"]["peak_allocated_gib"], row["memory"]["peak_allocated_gib"])
          << asked;
      for (const auto& [part, seconds] : row["time"]["breakdown_seconds"].items()) {
        EXPECT_GE(seconds.get<double>(), -1e-9) << part << " of " << asked;
      }
      ++told;
    }
  }
  EXPECT_GT(told, 80U);
}

// Where the host's memory is short, what is missing was told of the GPU's, which has enough.
TEST(ToldLayouts, WhatIsMissingOfTheHostIsMissing) {
  const json plan = plan_of(
      "--model llama-3.1-8b --cluster dgx-h100x1 --global-batch 64 --seq 4096 --framework megatron "
      "--offload optimizer --host-memory 40 ",
      1);
  ASSERT_FALSE(plan["nearest_misses"].empty());
  for (const json& miss : plan["nearest_misses"]) {
    EXPECT_GT(miss["missing_gib"].get<double>(), 0) << miss;
  }
}

}  // namespace
}  // namespace trireme::tools
