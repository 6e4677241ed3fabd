// Files of measurements that others made, read for `trireme calibrate --fit`: logs of nccl-tests,
// JSON tables of collectives, and lines of micro-benchmarks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/microbenchmarks.h"
#include "planner/calibrate/collective_fit.h"
#include "planner/calibrate/nccl_log.h"

namespace trireme::planner {

// Bytes of a file of measurements or a log at most: a device has no end.
inline constexpr std::size_t kMeasurementsMost = std::size_t{256} << 20U;
// Of one log of nccl-tests: a line is about 120 bytes and a size.
inline constexpr std::size_t kLogMost = std::size_t{4} << 20U;

// What the file may not say. `cluster` is the machine that was measured.
struct MeasurementHints {
  topologies::Cluster cluster;
  std::string operation;              // of a log that does not name its tool
  std::optional<std::int64_t> ranks;  // of a log without a banner
  bool in_place = false;              // fit the in-place times where both were printed
  bool other_card = false;            // take logs of a card that the cluster does not have
};

struct MeasurementFile {
  std::vector<CollectiveMeasurement> collectives;
  std::vector<NcclLogTable>
      tables;  // the same as printed, one for each of `collectives`; none from JSON lines
  Microbenchmarks points;            // matrix products, attention and passes of JSON lines
  bool host_timed = false;           // points are timed by the host, as PyTorch's are
  std::vector<std::string> remarks;  // what was passed over, and why
};

// Formats, told by their content:
// - text of nccl-tests, one or several tools, or what its -J wrote;
// - {"collective", "gpus", "nodes", "rows": [{"bytes", "time_us", "busbw"}]};
// - JSON lines {"suite": "coll"|"gemm"|"attn"|"copy", …, "seconds"}, host-timed; "gemm" with
// "dtype"
//   or "precision", bf16 without;
// - {"schema": "trireme.microbenchmarks/1"}: what `calibrate --raw` kept.
// Throws Error: unreadable, another format, nothing usable, more ranks than the cluster has, wrong
// results, a log of another card than the cluster's.
MeasurementFile read_measurements(const std::string& path, const MeasurementHints& hints,
                                  std::size_t most = kMeasurementsMost);
MeasurementFile parse_measurements(const std::string& text, const std::string& where,
                                   const MeasurementHints& hints);

}  // namespace trireme::planner
