// Context parallelism as a ring: chosen where it is faster, and named where there is none.
#include "tests/unit/tools/planned.h"

namespace trireme::tools {
namespace {

using nlohmann::json;

// `plan` gathered keys and values whatever the network: 65,536 tokens on cards of PCIe take 2 to 5
// % longer so.
TEST(RingCommand, IsChosenWhereItIsFaster) {
  const std::string job =
      "--model llama-3.1-8b --cluster h100-pciex2 --seq 65536 --global-batch 32 ";
  const json plan = plan_of(job);
  ASSERT_FALSE(plan["switches"].empty());
  EXPECT_EQ(plan["switches"][0]["setting"], "context_gather=false");
  EXPECT_GT(plan["best"]["layout"]["cp"], 1);
  const double ring = plan["best"]["time"]["step_seconds"].get<double>();
  for (const char* form : {"true", "false"}) {
    const json asked = plan_of(job + "--set context_gather=" + form);
    EXPECT_TRUE(asked["switches"].empty()) << form;
    // What predictions do not tell apart may be put first.
    EXPECT_LE(ring, 1.01 * asked["best"]["time"]["step_seconds"].get<double>()) << form;
  }
}

TEST(RingCommand, IsNotOfferedToShortSequencesAndWhatHasNone) {
  for (const char* job :
       {"--model llama-3.1-8b --cluster h100-pciex2 --seq 8192 --global-batch 32",
        "--model llama-3.1-8b --cluster h100-pciex2 --seq 65536 --global-batch 32 --attention "
        "unfused",
        "--model gemma-2-9b --cluster h100-pciex2 --seq 65536 --global-batch 32"}) {
    for (const json& one : plan_of(job)["switches"]) {
      EXPECT_NE(one["setting"], "context_gather=false") << job;
    }
  }
}

// context_gather=false was no ring beside unfused attention, without a word.
TEST(RingCommand, WhatHasNoRingIsSaid) {
  const std::string job =
      "--model llama-3.1-8b --cluster dgx-h100x1 --seq 32768 --global-batch 8 --set "
      "context_gather=false ";
  const std::string unfused =
      run_words("estimate " + job + "--layout cp4.fsdp2.mb1 --attention unfused").out;
  EXPECT_NE(unfused.find("no ring beside unfused attention"), std::string::npos) << unfused;
  const std::string fused = run_words("estimate " + job + "--layout cp4.fsdp2.mb1").out;
  EXPECT_EQ(fused.find("no ring"), std::string::npos) << fused;
}

}  // namespace
}  // namespace trireme::tools
