#include "topologies/nccl_model.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "topologies/nccl_terms.h"

namespace trireme::topologies {
namespace {

// A ring of Simple chunks over several nodes waits for its slowest link each step.
double long_ring_factor(const NcclGraph& graph, Collective collective, NcclAlgorithm algorithm,
                        NcclProtocol protocol, double bytes) {
  const bool applies = algorithm == NcclAlgorithm::kRing && protocol == NcclProtocol::kSimple &&
                       graph.nodes > 1 && is_reduce_all(collective) &&
                       bytes / (graph.channels * static_cast<double>(graph.ranks)) >= 64;
  if (!applies) {
    return 1.0;
  }
  return graph.generation == NcclGeneration::kVolta ? 1.9 : 1.4;
}

NcclTime evaluate(const NcclInputs& in, NcclAlgorithm algorithm, NcclProtocol protocol) {
  NcclTime result{algorithm, protocol, kInfinity, kInfinity, kInfinity, false};
  if (!nccl_allows(in, algorithm, protocol)) {
    return result;
  }
  const double factor = long_ring_factor(in.graph, in.collective, algorithm, protocol, in.bytes);
  const double bandwidth = nominal_bandwidth(in, algorithm, protocol);
  const double base = nccl_latencies().base[index_of(algorithm)][index_of(protocol)];
  result.nominal_us = bandwidth > 0.0 ? factor * nccl_latency(in, algorithm, protocol, base, 1.0) +
                                            in.bytes / (bandwidth * kBytesPerMicrosecond)
                                      : kInfinity;
  return result;
}

void finish(const NcclInputs& in, NcclTime& result) {
  const double factor =
      long_ring_factor(in.graph, in.collective, result.algorithm, result.protocol, in.bytes);
  const NcclTransfer moved = nccl_transfer(in, result.algorithm, result.protocol);
  double start = in.fabric.start_us;
  double step_scale = in.fabric.step_scale;
  if (result.protocol == NcclProtocol::kLL128) {
    start += in.fabric.ll128_start_us;
  } else if (result.protocol == NcclProtocol::kSimple) {
    start += in.fabric.simple_start_us;
    step_scale = in.fabric.simple_step_scale;
  }
  result.latency_us =
      start + factor * nccl_latency(in, result.algorithm, result.protocol, 0.0, step_scale);
  result.time_us = result.latency_us + moved.us;
  if (result.algorithm == NcclAlgorithm::kRing && moved.network_bound) {
    // Between two hops over the network a chunk has as long as the chunks before it take there: the
    // steps' latency shows only beyond that.
    result.time_us = std::max(start + moved.us, result.latency_us + moved.fast_us);
  }
  result.network_bound = moved.network_bound;
}

constexpr std::array kEveryAlgorithm = {NcclAlgorithm::kTree, NcclAlgorithm::kRing,
                                        NcclAlgorithm::kNvls, NcclAlgorithm::kNvlsTree,
                                        NcclAlgorithm::kPat};
constexpr std::array kEveryProtocol = {NcclProtocol::kLL, NcclProtocol::kLL128,
                                       NcclProtocol::kSimple};

}  // namespace

NcclTime nccl_time(const NcclGraph& graph, const FabricFit& fabric, const NetworkFit& network,
                   Collective collective, double bytes) {
  const NcclInputs in{graph, fabric, network, collective, std::max(bytes, 1.0)};
  NcclTime best{};
  best.nominal_us = kInfinity;
  for (const NcclAlgorithm algorithm : kEveryAlgorithm) {
    for (const NcclProtocol protocol : kEveryProtocol) {
      const NcclTime candidate = evaluate(in, algorithm, protocol);
      if (candidate.nominal_us < best.nominal_us) {
        best = candidate;
      }
    }
  }
  if (!std::isfinite(best.nominal_us)) {
    // NCCL_ALGO leaves nothing that this collective has: NCCL goes on with the ring.
    NcclGraph any = graph;
    any.algorithms = any.protocols = 0;
    return nccl_time_of(any, fabric, network, collective, bytes, NcclAlgorithm::kRing,
                        NcclProtocol::kSimple);
  }
  finish(in, best);
  return best;
}

NcclTime nccl_time_of(const NcclGraph& graph, const FabricFit& fabric, const NetworkFit& network,
                      Collective collective, double bytes, NcclAlgorithm algorithm,
                      NcclProtocol protocol) {
  const NcclInputs in{graph, fabric, network, collective, std::max(bytes, 1.0)};
  NcclTime result = evaluate(in, algorithm, protocol);
  if (std::isfinite(result.nominal_us)) {
    finish(in, result);
  }
  return result;
}

}  // namespace trireme::topologies
