// What measurements add to NCCL's own model: a handful of constants per in-node fabric (GPU
// generation and link) and per network, each with a physical meaning. They ship in
// topologies/networks.json; a profile's `networks` (by the same names) overrides them key by key.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topologies/nccl_graph.h"
#include "topologies/profile.h"

namespace trireme::topologies {

// In-node constants. Rates are relative to what NCCL books for the links unless a unit is named.
struct FabricFit {
  double launch_us =
      0.0;  // added to every collective: launch and first handshake, beyond NCCL's base
  double step_scale = 1.0;       // of NCCL's latency of one LL or LL128 step
  double simple_us = 0.0;        // added when the Simple protocol runs: buffer handshake and fences
  double ring_efficiency = 1.0;  // asymptotic rate of a ring, Simple
  double ll_efficiency = 1.0;    // of NCCL's LL rate
  double ll128_efficiency = 1.0;  // of NCCL's LL128 rate
  double tree_efficiency = 1.0;
  double nvls_efficiency = 1.0;
  double nvls_ramp_mib = 0.0;
  double copy_gbytes_per_second = 1000.0;  // a rank's own part, copied by the same kernels
  double ramp_mib = 0.0;                   // size at which the ramp doubles the transfer time
  double p2p_us = 10.0;                    // launch of all-to-all and send/receive
  double p2p_peer_us = 0.0;                // more of it for each peer
  double p2p_efficiency = 1.0;
  double p2p_ramp_mib = 0.0;
};

struct NetworkFit {
  double latency_us = 0.0;  // of one message beyond NCCL's constant: transport, proxy, switches
  double efficiency = 1.0;  // of the NICs' line rate that a ring reaches
  double tree_efficiency = 1.0;  // of the NICs' line rate that a tree reaches
  double ramp_mib = 0.0;
  double nic_latency_us = 0.6;     // the adapters and
  double switch_latency_us = 0.2;  // switches that latency_us was measured with
  double ll128 =
      1.0;  // 0: the transport does not keep the order that LL128 needs, so NCCL leaves it out
};

const FabricFit& fabric_fit(const NcclGraph& graph, const Gpu& gpu);
const NetworkFit& network_fit(const std::string& name);
// The key of fabric_fit in networks.json and in profiles: "NVLink Hopper", "xGMI", "PCIe host", …
std::string_view fabric_key(const NcclGraph& graph, const Gpu& gpu);

// The same with a profile's own constants laid over.
FabricFit fabric_fit(const Profile& profile, const NcclGraph& graph, const Gpu& gpu);
NetworkFit network_fit(const Profile& profile, const std::string& name);

// The nccl-tests tables whose numbers went into the constants; no other table may be counted among
// them.
const std::vector<std::string>& fitted_tables();

}  // namespace trireme::topologies
