// NCCL's choice of algorithm and protocol, and the time that the chosen one takes. The choice is
// NCCL's own: the least of its predicted times (tuning.cc). The time is the same structure with
// rates and latencies as measured.
#pragma once

#include "topologies/collective_cost.h"
#include "topologies/corrections.h"
#include "topologies/nccl_constants.h"
#include "topologies/nccl_graph.h"

namespace trireme::topologies {

struct NcclTime {
  NcclAlgorithm algorithm = NcclAlgorithm::kRing;
  NcclProtocol protocol = NcclProtocol::kSimple;
  double nominal_us = 0.0;  // what NCCL itself expects
  double time_us = 0.0;     // what we expect
  double latency_us = 0.0;  // the part of time_us that does not grow with size
  bool network_bound = false;
};

// All-reduce, all-gather, reduce-scatter, broadcast. `bytes` follows nccl-tests' size column.
NcclTime nccl_time(const NcclGraph& graph, const FabricFit& fabric, const NetworkFit& network,
                   Collective collective, double bytes);
// The same for one algorithm and protocol; time_us is infinite where NCCL does not allow it.
NcclTime nccl_time_of(const NcclGraph& graph, const FabricFit& fabric, const NetworkFit& network,
                      Collective collective, double bytes, NcclAlgorithm algorithm,
                      NcclProtocol protocol);

// All-to-all and send/receive, for which NCCL has no model: our own.
NcclTime p2p_time(const Cluster& cluster, const NcclGraph& graph, const FabricFit& fabric,
                  const NetworkFit& network, Collective collective, double bytes);

// Traffic of a node's NICs, each way, of a double binary tree over `nodes`, relative to the
// message.
double tree_traffic(int nodes);

}  // namespace trireme::topologies
