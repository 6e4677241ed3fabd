// What measurements add to NCCL's own model: a handful of constants per in-node fabric (GPU
// generation and link) and per network, each with a physical meaning. They ship in
// topologies/networks.json; a profile's `networks` (by the same names) overrides them key by key.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topologies/nccl_graph.h"
#include "topologies/profile.h"

namespace trireme::topologies {

// In-node constants. Values here are what is expected of any fabric: NCCL's own, or the usual of
// those measured. A share is of the links' line rate, payload of the protocol included.
struct FabricFit {
  double start_us = 6.6;           // launch and first handshake of LL, which NCCL books at 6.6 us
  double ll128_start_us = 7.4;     // more of it under LL128
  double simple_start_us = 1.8;    // and under Simple: buffer handshake and fences
  double step_scale = 1.0;         // of NCCL's latency of one LL or LL128 step
  double simple_step_scale = 1.0;  // of one Simple step, and of the switches' reduction
  double ring_share = 0.8;         // that a ring's Simple protocol reaches
  double ll_share = 0.6;
  double ll128_share = 0.7;
  double tree_share = 0.8;
  double nvls_share = 0.7;
  double nvls_ramp_mib = 2.0;
  double copy_gbytes_per_second = 800.0;  // a rank's own part, copied by the same kernels
  double ramp_mib = 0.3;                  // size at which the ramp doubles the transfer time
  double p2p_us = 9.0;                    // launch of all-to-all and send/receive
  double p2p_peer_us = 0.15;              // more of it for each peer
  double p2p_share = 0.75;
  double p2p_ramp_mib = 3.0;
};

struct NetworkFit {
  double latency_us = 5.0;   // of one message beyond NCCL's constant: transport, proxy, switches
  double efficiency = 0.95;  // of the NICs' line rate that a ring reaches
  double tree_efficiency = 0.9;  // of the NICs' line rate that a tree reaches
  double ramp_mib = 0.3;
  double nic_latency_us = 0.6;     // the adapters and
  double switch_latency_us = 0.2;  // switches that latency_us was measured with
  double ll128 =
      1.0;  // 0: the transport does not keep the order that LL128 needs, so NCCL leaves it out
};

// One constant as a fit sees it: `width` is the standard deviation of its logarithm among machines,
// `high` what it cannot exceed (a share of a line rate: 1).
struct CorrectionPrior {
  std::string_view name;
  double value = 0, width = 0, high = 0;
};
std::vector<CorrectionPrior> corrections_of(const FabricFit& fit);
std::vector<CorrectionPrior> corrections_of(const NetworkFit& fit);
// What a constant of this name cannot exceed; none: no fabric or network has it.
std::optional<double> correction_limit(std::string_view name);

const FabricFit& fabric_fit(const NcclGraph& graph, const Gpu& gpu);
const NetworkFit& network_fit(const std::string& name);
// The key of fabric_fit in networks.json and in profiles: "NVLink Hopper", "xGMI", …; of a host
// that was measured with its card: "host memory, one socket, L40S-48GB".
std::string_view fabric_key(const NcclGraph& graph, const Gpu& gpu);

// The same with a profile's own constants laid over.
FabricFit fabric_fit(const Profile& profile, const NcclGraph& graph, const Gpu& gpu);
NetworkFit network_fit(const Profile& profile, const std::string& name);

// The nccl-tests tables whose numbers went into the constants; no other table may be counted among
// them.
const std::vector<std::string>& fitted_tables();

}  // namespace trireme::topologies
