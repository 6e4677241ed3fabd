// Snapshots of PyTorch's allocator (torch.cuda.memory._dump_snapshot), as the JSON that
//   python3 -c "import json,pickle,sys; json.dump(pickle.load(open(sys.argv[1],'rb')),sys.stdout)"
//   FILE
// makes of the pickle: what is alive when most memory is.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace trireme::tools {

// Blocks that one line of the program allocated.
struct SnapshotBlocks {
  std::string where;  // "modeling_llama.py:67 forward": the nearest frame outside torch
  std::int64_t count = 0;
  double bytes = 0;
};

struct SnapshotPeak {
  double bytes = 0;                    // allocated, of the device that has most
  double persistent_bytes = 0;         // allocated before the history begins
  std::vector<SnapshotBlocks> blocks;  // the others, largest first
};

bool is_allocator_snapshot(const nlohmann::json& json);
// Throws Error: not a snapshot, or one without a history of allocations.
SnapshotPeak parse_allocator_snapshot(const nlohmann::json& json, const std::string& path);

}  // namespace trireme::tools
