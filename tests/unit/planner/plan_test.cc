#include "planner/plan/plan.h"

#include <gtest/gtest.h>

#include "core/error.h"

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
        "fsdp4.mb1.unitmodel"}) {
    const Plan plan = parse_short_form(text);
    EXPECT_EQ(short_form(plan), text);
    EXPECT_EQ(parse_short_form(short_form(plan)), plan);
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
