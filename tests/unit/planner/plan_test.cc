#include "planner/plan/plan.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "core/error.h"
#include "planner/plan/names.h"

namespace trireme::planner {
namespace {

TEST(ShortForm, DegreesAndMicroBatch) {
  const Plan plan = parse_short_form("tp8.pp4.fsdp2.mb1");
  EXPECT_EQ(plan.tensor, 8);
  EXPECT_EQ(plan.pipeline, 4);
  EXPECT_EQ(plan.sharded, 2);
  EXPECT_EQ(plan.sharding, Sharding::kFull);
  EXPECT_TRUE(plan.sequence_parallel);
  EXPECT_EQ(plan.gpus(), 64);
  EXPECT_EQ(short_form(plan), "tp8.pp4.fsdp2.mb1");
}

TEST(ShortForm, EveryFormReadsBackAsItself) {
  for (const char* text :
       {"mb1", "tp2.mb4", "tp8.pp16.vpp4.dp8.mb1.rc-full2", "pp4.dp2.mb1.gpipe", "fsdp8.mb2.zero1",
        "fsdp8.dp4.mb2.noreshard.unit4", "tp4.pp2.fsdp2.mb1.zero2.rc-core_attn+mlp.nosp",
        "pp2.mb1.zb-h1.layers10-12", "pp8.vpp2.mb1.layers0-5x14-0",
        "tp2.pp2.cp2.ep4.etp1.fsdp2.dp2.mb1.rc-selective", "tp2.pp4.dp8.mb1.order-tp-pp-dp",
        "fsdp4.mb1.unitmodel", "tp2.etp1.fsdp4.mb8.rc-full20",
        "pp4.vpp12.cp2.mb8.zero3.rc-full.noreshard"}) {
    const Plan plan = parse_short_form(text);
    EXPECT_EQ(short_form(plan), text);
    EXPECT_EQ(parse_short_form(short_form(plan)), plan);
  }
}

// mtpapart, rc-op and zb-h1 stood in layouts and in no page.
TEST(ShortForm, EveryPartStandsInThePageThatTeachesThem) {
  std::ifstream file(TRIREME_SOURCE_DIR "/docs/reading_plans.md");
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  ASSERT_FALSE(page.empty());
  std::vector<std::string> parts;
  const auto add_parts_of = [&](const Plan& plan) {
    std::string text = short_form(plan) + ".";
    for (auto cut = text.find('.'); cut != std::string::npos; cut = text.find('.')) {
      parts.push_back(text.substr(0, cut));
      text.erase(0, cut + 1);
    }
  };
  Plan plan = parse_short_form("tp2.pp4.vpp2.cp2.ep8.etp1.fsdp2.dp2.mb2.nosp.noreshard.mtpapart");
  for (const auto& [schedule, name] : kScheduleNames.rows) {
    plan.schedule = schedule;
    add_parts_of(plan);
  }
  for (const char* form : {"mb1.rc-full", "mb1.rc-selective", "fsdp2.mb1.unitmodel",
                           "fsdp2.mb1.zero1", "fsdp2.mb1.zero2", "mb1.rc-op"}) {
    add_parts_of(parse_short_form(form));
  }
  for (std::uint32_t bit = 1; bit < kTorchPerOp; bit *= 2) {
    parts.push_back(module_names(static_cast<std::uint16_t>(bit)));
  }
  for (const std::string& part : parts) {
    const std::string word = part.substr(0, part.find_first_of("0123456789"));
    const bool named = part.starts_with("zero") || part.starts_with("zb-") || word.empty();
    EXPECT_NE(page.find("`" + (named ? part + "`" : word)), std::string::npos) << part;
  }
}

TEST(ShortForm, WrongPartsAreNamed) {
  for (const char* text :
       {"", "tp", "tp0", "tp-1", "tp8.", "xx3", "tp8,pp2", "tp99999999999999999999", "order-tp-tp",
        "order-xx", "rc-", "layers3-x", "mb1.5", "tp8.tp4", "fsdp8.zero1.zero2", "sp.tp2.nosp",
        "rc-full.rc-selective", "gpipe.pp2.1f1b", "mb1.mb1"}) {
    EXPECT_THROW(parse_short_form(text), Error) << text;
  }
}

TEST(Strides, FollowTheOrder) {
  const Plan usual = parse_short_form("tp8.pp4.fsdp2.dp3.mb1");
  EXPECT_EQ(stride_of(usual, Axis::kTensor), 1);
  EXPECT_EQ(stride_of(usual, Axis::kSharded), 8);
  EXPECT_EQ(stride_of(usual, Axis::kReplica), 16);
  EXPECT_EQ(stride_of(usual, Axis::kPipeline), 48);
  const Plan pipeline_first = parse_short_form("tp8.pp4.fsdp2.mb1.order-pp-tp");
  EXPECT_EQ(stride_of(pipeline_first, Axis::kPipeline), 1);
  EXPECT_EQ(stride_of(pipeline_first, Axis::kTensor), 4);
  EXPECT_EQ(stride_of(pipeline_first, Axis::kSharded), 32);
}

}  // namespace
}  // namespace trireme::planner
