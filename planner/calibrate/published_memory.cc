#include "planner/calibrate/published_memory.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace trireme::planner {

namespace {

enum class Reading : std::uint8_t { kAllocated, kReserved, kDevice };

bool names_any(const std::string& text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return text.find(word) != std::string::npos; });
}

// What was measured where the row does not say: trainers of fine-tuning and of offload print what
// the allocator reserved, in GiB; tables in GB, of "GPU memory" or "HBM" are nvidia-smi's; else it
// is what PyTorch calls its peak.
Reading reading_of(const PublishedRow& row) {
  // "peak allocated, GiB (reserved 69.684)": what the number is, whatever else the row has.
  if (names_any(row.memory_detail, {"peak allocated", "peak active", "allocated GB"})) {
    return Reading::kAllocated;
  }
  if (row.memory_kind == "device") {
    return Reading::kDevice;
  }
  if (row.memory_kind == "reserved") {
    return Reading::kReserved;
  }
  if (row.memory_kind != "unknown") {
    return Reading::kAllocated;
  }
  if (names_any(row.memory_detail, {"GB as printed", "as printed, \"GB\"", "HBM", "device"})) {
    return Reading::kDevice;
  }
  return row.finetune || row.offload ? Reading::kReserved : Reading::kAllocated;
}

}  // namespace

double published_memory_gib(const PublishedRow& row, const Plan& plan,
                            const MemoryEstimate& estimate) {
  // Numbers that a script divided by 10^9 are compared as they are printed.
  const bool decimal = row.memory_detail.find("1e9") != std::string::npos ||
                       row.memory_detail.find("10^9") != std::string::npos;
  const double unit = decimal ? 1024.0 * 1024 * 1024 / 1e9 : 1;
  double allocated = estimate.allocated_gib;
  if (!estimate.stages.empty() && plan.pipeline > 1) {
    if (row.memory_scope == "first_stage") {
      allocated = estimate.stages.front().items.total();
    } else if (row.memory_scope == "logging_rank") {
      allocated = estimate.stages.back().items.total();
    }
  }
  const double share = estimate.allocated_gib > 0 ? allocated / estimate.allocated_gib : 1;
  switch (reading_of(row)) {
    case Reading::kReserved:
      return unit * estimate.reserved_gib * share;
    case Reading::kDevice:
      return unit * (estimate.device_gib - estimate.reserved_gib * (1 - share));
    case Reading::kAllocated:
      break;
  }
  return unit * allocated;
}

}  // namespace trireme::planner
