// NCCL's own tuning constants (2.30, src/graph/tuning.cc and topo.h): latencies in microseconds,
// bandwidths in GB/s.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace trireme::topologies {

enum class NcclAlgorithm { kTree, kRing, kNvls, kNvlsTree, kPat };
enum class NcclProtocol { kLL, kLL128, kSimple };
constexpr std::size_t kNcclAlgorithms = 5;
constexpr std::size_t kNcclProtocols = 3;
constexpr std::size_t index_of(NcclAlgorithm algorithm) {
  return static_cast<std::size_t>(algorithm);
}
constexpr std::size_t index_of(NcclProtocol protocol) {
  return static_cast<std::size_t>(protocol);
}

using PerProtocol = std::array<double, kNcclProtocols>;  // LL, LL128, Simple

struct NcclLatencies {
  std::array<PerProtocol, kNcclAlgorithms> base;
  std::array<PerProtocol, kNcclAlgorithms> nvlink;
  std::array<PerProtocol, kNcclAlgorithms> pcie;
  std::array<PerProtocol, kNcclAlgorithms> network;
};

// Columns: one node, two nodes, more.
using PerScale = std::array<double, 3>;
struct NcclBandwidthCaps {
  double ll_single;     // all channels together, one node
  double ring_ll128;    // a channel
  PerScale tree_ll128;  // a channel
  PerScale tree;        // a channel
  PerScale nvls_tree;   // a channel
  double nvls_efficiency;
};

enum class NcclGeneration { kVolta, kAmpere, kHopper, kBlackwell };

NcclGeneration nccl_generation(int compute_capability);
const NcclLatencies& nccl_latencies();
const NcclBandwidthCaps& nccl_caps(NcclGeneration generation);
// LL's cap over several nodes: NCCL books Volta's row for Intel and Arm hosts and Ampere's for AMD
// hosts.
double nccl_ll_cap_multi(bool amd_cpu, int nodes);
// Speeds of a channel that the graph search tries, highest first.
std::span<const double> nccl_ladder(int compute_capability, bool with_network);
// How much of the tree's bandwidth NCCL believes in at `bytes`.
double nccl_tree_factor(NcclProtocol protocol, double bytes);
// The share of NVLink's line rate that NCCL books: 20 of 25 GB/s a link, 20.6 on Hopper, 40.1 of 50
// on Blackwell.
double nccl_nvlink_share(int compute_capability);
// Of PCIe's raw rate that NCCL books: 12 of generation 3's 15.75 GB/s.
constexpr double kPcieBooked = 12.0 / 15.75;
// PCIe x16 as NCCL books it: 12 GB/s for generation 3, doubling.
double nccl_pcie_rate(int pcie_generation);

}  // namespace trireme::topologies
