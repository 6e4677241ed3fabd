// The textbook families of collective costs (Thakur, Rabenseifner and Gropp 2005):
// latency alpha per message, inverse bandwidth beta per rank and direction.
#pragma once

#include "topologies/collective_cost.h"
#include "topologies/nccl_graph.h"

namespace trireme::topologies {

struct AlphaBeta {
  double alpha = 0.0;  // seconds
  double beta = 0.0;   // seconds a byte
};

// Of the links inside a node and of a rank's share of its node's NICs.
AlphaBeta intra_alpha_beta(const Cluster& cluster, const NcclGraph& graph);
AlphaBeta inter_alpha_beta(const Cluster& cluster, const NcclGraph& graph);

// Ring, tree and log-P over one kind of link; seconds.
double log_p_seconds(double ranks, AlphaBeta link, double bytes);
double ring_seconds(Collective collective, double ranks, AlphaBeta link, double bytes);
double tree_seconds(Collective collective, double ranks, AlphaBeta link, double bytes);
// `local` ranks a node over `inside`, `nodes` nodes over `outside`.
double hierarchical_seconds(Collective collective, double local, double nodes, AlphaBeta inside,
                            AlphaBeta outside, double bytes);

}  // namespace trireme::topologies
