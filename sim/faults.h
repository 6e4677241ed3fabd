// What makes ranks or links unlike their neighbours: stragglers, degraded links and rails, jitter.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/ids.h"

namespace trireme::sim {

// Compute of one rank, or of every rank of one pipeline stage, takes `factor` times as long (1.2:
// 20 % slower).
struct Straggler {
  double factor = 1.0;       // > 0
  std::optional<Rank> rank;  // exactly one of the two
  std::optional<StageIndex> stage;
};

// Links with `factor` of their bandwidth (0.5: half).
struct SlowLink {
  enum class Kind : std::uint8_t {
    kNic,
    kFastFabric
  } kind = Kind::kNic;               // kFastFabric: NVLink, xGMI or PCIe in a node
  double factor = 1.0;               // >= 0; 0 is a dead link
  std::optional<std::int64_t> node;  // of this node only; else of every node
  std::optional<int> nic;            // NIC i only (with no node: rail i); else all of them
};

struct Faults {
  std::vector<Straggler> stragglers;
  std::vector<SlowLink> slow_links;
  // No two GPUs are alike: compute of a rank takes 1 + rank_spread * z times as long, z of mean 0
  // and deviation 1, drawn from the seed and the rank. Every rank is then simulated by itself.
  double rank_spread = 0;
  // Each compute op takes 1 + jitter * z times as long, z of mean 0 and deviation 1 (at least 5 %
  // of its duration), drawn from the seed, the rank and the op. Every rank is then simulated by
  // itself.
  double jitter = 0;
  std::uint64_t seed = 0;
};

}  // namespace trireme::sim
