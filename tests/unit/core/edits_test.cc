// Which name was meant.
#include "core/edits.h"

#include <gtest/gtest.h>

#include <string>

namespace trireme {
namespace {

TEST(Edits, AreLettersPutInLeftOutOrReplaced) {
  EXPECT_EQ(edits_between("tensor", "tensor"), 0U);
  EXPECT_EQ(edits_between("parralel", "parallel"), 2U);
  EXPECT_EQ(edits_between("", "abc"), 3U);
  EXPECT_EQ(edits_between("optimisation", "optimization"), 1U);
}

TEST(Edits, WhatIsLeftOffAtTheEndCostsNothing) {
  EXPECT_EQ(edits_to_a_beginning("h1000", "h100sxm580gb"), 1U);
  EXPECT_EQ(edits_to_a_beginning("dgxa100", "dgxa10080gb"), 0U);
  EXPECT_GE(edits_to_a_beginning("h1000", "t416gb"), 3U);
}

TEST(Edits, ShortNamesAllowFewerSlips) {
  EXPECT_TRUE(is_a_slip("tensor_parralel_degree", "tensor_parallel_degree"));
  EXPECT_TRUE(is_a_slip("stagee", "stage"));
  EXPECT_FALSE(is_a_slip("stage", "stage"));
  EXPECT_FALSE(is_a_slip("steps", "seed"));
  EXPECT_FALSE(is_a_slip(std::string(100, 'a'), std::string(100, 'b')));
}

}  // namespace
}  // namespace trireme
