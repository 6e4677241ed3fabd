#include "planner/calibrate/published.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"

namespace trireme::planner {
namespace {

constexpr const char* kRow =
    R"({"id": "a-1", "model": "gpt", "layers": 4, "hidden": 256, "heads": 4, "seq": 128,
  "gpu": "A100-80GB", "gpus": 4, "tp": 2, "pp": 1, "micro_batch": 2, "global_batch": 8, "sharding": "optimizer",
  "recompute": "none", "settings": {"grad_dtype": "fp32", "overlap_grad_reduce": false}, "peak_memory_gib": 3.5,
  "memory_kind": "allocated", "weather": "fine"})";

TEST(Published, ReadsARowAndNamesUnknownKeysOnce) {
  const PublishedFile file =
      parse_published(std::string("{\"rows\": [") + kRow + "," + kRow + "]}", "folder/source.json");
  EXPECT_EQ(file.name, "source");
  ASSERT_EQ(file.rows.size(), 2U);
  EXPECT_EQ(file.unknown_keys, std::vector<std::string>{"weather"});
  const PublishedRow& row = file.rows[0];
  EXPECT_EQ(row.id, "a-1");
  EXPECT_EQ(row.tp, 2);
  EXPECT_FALSE(row.vpp.has_value());
  EXPECT_DOUBLE_EQ(row.peak_memory_gib.value(), 3.5);
  ASSERT_EQ(row.settings.size(), 2U);
}

TEST(Published, ABadRowIsSkippedAndTheOthersStay) {
  const PublishedFile file = parse_published(
      std::string(
          "[{\"id\": \"bad\", \"layers\": \"many\"}, 7, {\"layers\": -1}, {\"tp\": 1.5}, ") +
          kRow + "]",
      "s");
  ASSERT_EQ(file.rows.size(), 5U);
  for (std::size_t row = 0; row < 4; ++row) {
    EXPECT_FALSE(file.rows[row].unreadable.empty()) << row;
  }
  EXPECT_EQ(file.rows[0].unreadable, "layers should be a number of 0 or more");
  EXPECT_TRUE(file.rows[4].unreadable.empty());
}

TEST(Published, WhatIsNoListOfRowsIsRefused) {
  EXPECT_THROW(parse_published("{\"header\": {}}", "s"), Error);
  EXPECT_THROW(parse_published("{\"rows\": 3}", "s"), Error);
  EXPECT_THROW(parse_published("not json", "s"), Error);
  EXPECT_THROW(read_published("/nonexistent/folder"), Error);
}

}  // namespace
}  // namespace trireme::planner
