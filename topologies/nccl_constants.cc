#include "topologies/nccl_constants.h"

#include <algorithm>
#include <cmath>

namespace trireme::topologies {

NcclGeneration nccl_generation(int compute_capability) {
  // AMD's parts (gfx numbers 900 and up) run RCCL, whose structure is Ampere's: no NVLS, no LL128
  // caps of Hopper.
  if (compute_capability >= 900) {
    return NcclGeneration::kAmpere;
  }
  if (compute_capability >= 100) {
    return NcclGeneration::kBlackwell;
  }
  if (compute_capability >= 90) {
    return NcclGeneration::kHopper;
  }
  return compute_capability >= 80 ? NcclGeneration::kAmpere : NcclGeneration::kVolta;
}

const NcclLatencies& nccl_latencies() {
  // Rows: tree, ring, NVLS, NVLSTree, PAT.
  static constexpr NcclLatencies kLatencies = {
      .base = {{{6.8, 14.0, 8.4}, {6.6, 14.0, 8.4}, {0, 0, 0}, {0, 0, 0}, {8, 8, 8}}},
      .nvlink = {{{0.6, 1.25, 4.0}, {0.6, 1.9, 3.4}, {0, 0, 25}, {0, 0, 25}, {0, 0, 4}}},
      .pcie = {{{1.0, 1.9, 4.0}, {1.0, 2.5, 5.7}, {0, 0, 0}, {0, 0, 0}, {0, 0, 4}}},
      .network = {{{5.0, 8.5, 14}, {2.7, 4.0, 14}, {0, 0, 18}, {0, 0, 20.9}, {0, 0, 14}}}};
  return kLatencies;
}

const NcclBandwidthCaps& nccl_caps(NcclGeneration generation) {
  static constexpr std::array<NcclBandwidthCaps, 4> kCaps = {{
      {39.0, 20.0, {20, 20, 20}, {26.5, 18.5, 10.0}, {26.5, 18.5, 10.0}, 0.0},
      {87.7, 20.0, {20, 20, 20}, {24.0, 23.6, 17.8}, {24.0, 23.6, 17.8}, 0.0},
      {141.0, 36.7, {36.7, 36.7, 29.0}, {38.7, 41.4, 36.0}, {0.0, 57.7, 45.5}, 0.85},
      {282.0, 40.0, {55.6, 31.67, 20.0}, {70.0, 42.8, 24.0}, {0.0, 96.0, 80.0}, 0.74},
  }};
  return kCaps[static_cast<std::size_t>(generation)];
}

double nccl_ll_cap_multi(bool amd_cpu, int nodes) {
  if (amd_cpu) {
    return nodes == 2 ? 22.5 : 19.0;
  }
  return nodes == 2 ? 39.0 : 20.4;
}

std::span<const double> nccl_ladder(int compute_capability, bool with_network) {
  static constexpr std::array<double, 13> kIntra80 = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
  static constexpr std::array<double, 19> kInter80 = {48, 30, 28, 24, 20, 18,  15,  12,  10, 9,
                                                      7,  6,  5,  4,  3,  2.4, 1.2, .24, .12};
  static constexpr std::array<double, 11> kIntra90 = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
  static constexpr std::array<double, 17> kInter90 = {48, 45, 42, 40, 30,  24,  22,  20, 17.5,
                                                      15, 12, 6,  3,  2.4, 1.2, .24, .12};
  static constexpr std::array<double, 12> kIntra100 = {90, 80, 70, 60, 50, 45,
                                                       40, 30, 24, 20, 19, 18};
  static constexpr std::array<double, 20> kInter100 = {
      96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, .24, .12};
  switch (nccl_generation(compute_capability)) {
    case NcclGeneration::kVolta:
    case NcclGeneration::kAmpere:
      break;
    case NcclGeneration::kHopper:
      return with_network ? std::span<const double>(kInter90) : std::span<const double>(kIntra90);
    case NcclGeneration::kBlackwell:
      return with_network ? std::span<const double>(kInter100) : std::span<const double>(kIntra100);
  }
  return with_network ? std::span<const double>(kInter80) : std::span<const double>(kIntra80);
}

double nccl_tree_factor(NcclProtocol protocol, double bytes) {
  // Index: floor(log2(bytes / 64)), 64 B to 256 MiB.
  static constexpr std::array<std::array<double, 23>, 3> kFactors = {{
      {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
      {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
      {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9},
  }};
  const double step = std::log2(std::max(bytes, 64.0) / 64.0);
  if (step >= 23.0) {
    return 1.0;
  }
  return kFactors[index_of(protocol)][static_cast<std::size_t>(step)];
}

double nccl_nvlink_share(int compute_capability) {
  if (compute_capability >= 900) {
    return 0.75;  // xGMI: 48 of 64 GB/s a link
  }
  if (compute_capability >= 100) {
    return 40.1 / 50.0;
  }
  if (compute_capability >= 90) {
    return 20.6 / 25.0;
  }
  return compute_capability == 86 ? 12.0 / 14.0625 : 20.0 / 25.0;
}

double nccl_pcie_rate(int pcie_generation) {
  return 12.0 * std::exp2(std::clamp(pcie_generation, 1, 6) - 3);
}

}  // namespace trireme::topologies
