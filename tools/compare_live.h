// What a real framework's allocator holds at its worst moment beside what this model's program
// does.
#pragma once

#include <string>

#include "tools/allocator_snapshot.h"
#include "tools/live_buffers.h"
#include "tools/report.h"

namespace trireme::tools {

struct LiveComparison {
  std::string plan, snapshot;
  LiveAtPeak predicted;      // of the stage that holds most
  double predicted_gib = 0;  // as estimate says it: what no buffer stands for is in it
  SnapshotPeak measured;
};

// Of a plan file and a snapshot's JSON. Throws Error.
LiveComparison compare_live(const std::string& plan_file, const nlohmann::json& snapshot,
                            const std::string& snapshot_path);
Json live_comparison_json(const LiveComparison& comparison);
void print_live_comparison(const Console& console, const LiveComparison& comparison);

}  // namespace trireme::tools
