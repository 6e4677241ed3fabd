#include "tools/allocator_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "core/error.h"

namespace trireme::tools {
namespace {

using nlohmann::json;

std::string where_of(const json& event) {
  const auto frames = event.find("frames");
  if (frames == event.end() || !frames->is_array() || frames->empty()) {
    return "no stack";
  }
  const json* nearest = &frames->front();
  for (const json& frame : *frames) {
    const std::string file = frame.value("filename", "");
    if (file.find("-packages/torch/") == std::string::npos) {
      nearest = &frame;
      break;
    }
  }
  const std::string file = nearest->value("filename", "");
  return fmt::format("{}:{} {}", file.substr(file.rfind('/') + 1), nearest->value("line", 0),
                     nearest->value("name", ""));
}

// Bytes of the blocks that are in use when the history ends.
double bytes_at_end(const json& snapshot, std::int64_t device) {
  double bytes = 0;
  for (const json& segment : snapshot.at("segments")) {
    if (segment.value("device", std::int64_t{0}) != device) {
      continue;
    }
    for (const json& block : segment.at("blocks")) {
      const std::string state = block.value("state", "");
      bytes += state.starts_with("active") ? block.value("size", 0.0) : 0;
    }
  }
  return bytes;
}

// A block given back counts until its stream is done with it.
double change_of(const json& event) {
  const std::string action = event.value("action", "");
  const double size = event.value("size", 0.0);
  return action == "alloc" ? size : action == "free_completed" ? -size : 0;
}

SnapshotPeak peak_of(const json& snapshot, const json& history, std::int64_t device) {
  double before = bytes_at_end(snapshot, device);
  for (const json& event : history) {
    before -= change_of(event);
  }
  double now = before;
  SnapshotPeak peak{.bytes = before, .persistent_bytes = 0, .blocks = {}};
  std::size_t at = 0;  // events that have happened
  for (std::size_t i = 0; i < history.size(); ++i) {
    now += change_of(history[i]);
    if (now > peak.bytes) {
      peak.bytes = now;
      at = i + 1;
    }
  }
  std::unordered_map<std::int64_t, std::size_t> alive;  // by address: the event that allocated it
  for (std::size_t i = 0; i < at; ++i) {
    const auto address = history[i].value("addr", std::int64_t{0});
    if (change_of(history[i]) > 0) {
      alive[address] = i;
    } else if (change_of(history[i]) < 0) {
      alive.erase(address);
    }
  }
  std::map<std::string, SnapshotBlocks> by_place;
  double transient = 0;
  for (const auto& [address, event] : alive) {
    SnapshotBlocks& blocks = by_place[where_of(history[event])];
    ++blocks.count;
    blocks.bytes += change_of(history[event]);
    transient += change_of(history[event]);
  }
  peak.persistent_bytes = peak.bytes - transient;
  for (auto& [where, blocks] : by_place) {
    blocks.where = where;
    peak.blocks.push_back(blocks);
  }
  std::ranges::stable_sort(peak.blocks, std::ranges::greater{}, &SnapshotBlocks::bytes);
  return peak;
}

}  // namespace

bool is_allocator_snapshot(const json& json) {
  return json.is_object() && json.contains("segments") && json.contains("device_traces");
}

SnapshotPeak parse_allocator_snapshot(const json& json, const std::string& path) {
  SnapshotPeak peak;
  bool any = false;
  try {
    const auto& traces = json.at("device_traces");
    for (std::size_t device = 0; device < traces.size(); ++device) {
      if (traces[device].empty()) {
        continue;
      }
      SnapshotPeak one = peak_of(json, traces[device], static_cast<std::int64_t>(device));
      if (!any || one.bytes > peak.bytes) {
        peak = std::move(one);
      }
      any = true;
    }
  } catch (const nlohmann::json::exception& error) {
    throw Error(path, fmt::format("is no snapshot of PyTorch's allocator: {}", error.what()));
  }
  if (!any) {
    throw Error(path,
                "has no history of allocations; torch.cuda.memory._record_memory_history() before "
                "the step would be right");
  }
  return peak;
}

}  // namespace trireme::tools
