// What the parts of NCCL's model share: what is asked, what NCCL itself expects of it
// (nccl_expects.cc), and what crosses the links (nccl_transfer.cc).
#pragma once

#include <cmath>
#include <limits>

#include "topologies/nccl_model.h"

namespace trireme::topologies {

struct NcclInputs {
  const NcclGraph& graph;
  const FabricFit& fabric;
  const NetworkFit& network;
  Collective collective;
  double bytes;
};

constexpr double kBytesPerMicrosecond = 1e3;  // of 1 GB/s
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The pipeline has to fill and small pieces use few channels: transfer time grows by the square
// root of ramp / size.
inline double ramp_factor(double ramp_mib, double bytes) {
  return 1.0 + std::sqrt(ramp_mib * 1048576.0 / bytes);
}

inline bool is_reduce_all(Collective collective) {
  return collective == Collective::kAllReduce;
}
double ring_steps(const NcclInputs& in);
// Whether NCCL takes the pair for this collective on this graph.
bool nccl_allows(const NcclInputs& in, NcclAlgorithm algorithm, NcclProtocol protocol);
// NCCL's latency in microseconds (tuning.cc), with its `base` and one step in the node `step_scale`
// times as long.
double nccl_latency(const NcclInputs& in, NcclAlgorithm algorithm, NcclProtocol protocol,
                    double base, double step_scale);
// Algorithm bandwidth in GB/s of a ring as NCCL expects it, from a bus rate over all channels.
double ring_bus(const NcclInputs& in, NcclProtocol protocol, double bus);
// NCCL's algorithm bandwidth in GB/s.
double nominal_bandwidth(const NcclInputs& in, NcclAlgorithm algorithm, NcclProtocol protocol);

struct NcclTransfer {
  double us = 0.0;
  bool network_bound = false;
  double fast_us = 0.0;  // of it, what the hops in the node take while the network's are waited for
};
NcclTransfer nccl_transfer(const NcclInputs& in, NcclAlgorithm algorithm, NcclProtocol protocol);

}  // namespace trireme::topologies
