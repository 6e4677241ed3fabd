// A snapshot of PyTorch's allocator: its worst moment, and who allocated what was alive then.
#include "tools/compare_live.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace trireme::tools {
namespace {

using nlohmann::json;

json event(const char* action, std::int64_t address, std::int64_t size, const char* file) {
  return {
      {"action", action},
      {"addr", address},
      {"size", size},
      {"frames",
       {{{"filename", "/venv/site-packages/torch/nn/functional.py"}, {"line", 1}, {"name", "f"}},
        {{"filename", file}, {"line", 7}, {"name", "forward"}}}}};
}

// 1000 bytes that were there before and stay; then 300 and 200 of one line, 50 of another while
// the 200 are gone. Most is alive after the second: 1500.
json snapshot() {
  const json history = {event("alloc", 1, 300, "/home/me/model.py"),
                        event("alloc", 2, 200, "/home/me/model.py"),
                        event("free_requested", 2, 200, "/home/me/model.py"),
                        event("free_completed", 2, 200, "/home/me/model.py"),
                        event("alloc", 2, 50, "/home/me/loss.py"),
                        event("free_completed", 1, 300, "/home/me/model.py")};
  const json blocks = {{{"address", 9}, {"size", 1000}, {"state", "active_allocated"}},
                       {{"address", 2}, {"size", 50}, {"state", "active_allocated"}},
                       {{"address", 5}, {"size", 4000}, {"state", "inactive"}}};
  return {{"segments", {{{"device", 0}, {"blocks", blocks}}}},
          {"device_traces", {history, json::array()}}};
}

TEST(AllocatorSnapshot, FindsTheWorstMoment) {
  const SnapshotPeak peak = parse_allocator_snapshot(snapshot(), "s.json");
  EXPECT_DOUBLE_EQ(peak.bytes, 1500);
  EXPECT_DOUBLE_EQ(peak.persistent_bytes, 1000);
  ASSERT_EQ(peak.blocks.size(), 1U);
  EXPECT_EQ(peak.blocks[0].where, "model.py:7 forward");  // not the line in torch
  EXPECT_EQ(peak.blocks[0].count, 2);
  EXPECT_DOUBLE_EQ(peak.blocks[0].bytes, 500);
}

TEST(AllocatorSnapshot, SaysWhatItLacks) {
  EXPECT_TRUE(is_allocator_snapshot(snapshot()));
  EXPECT_FALSE(is_allocator_snapshot({{"traceEvents", json::array()}}));
  json without = snapshot();
  without["device_traces"] = {json::array()};
  EXPECT_THROW(parse_allocator_snapshot(without, "s.json"), Error);
  json broken = snapshot();
  broken["segments"] = {{{"device", 0}}};
  EXPECT_THROW(parse_allocator_snapshot(broken, "s.json"), Error);
}

}  // namespace
}  // namespace trireme::tools
