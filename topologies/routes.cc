#include "topologies/routes.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>

#include "core/error.h"
#include "core/random.h"
#include "topologies/cluster_graph.h"
#include "topologies/nccl_graph.h"
#include "topologies/node_groups.h"

namespace trireme::topologies {
namespace {

// A message that passes another GPU is stored there and forwarded.
constexpr double kForwardSeconds = 0.3e-6;
// Paths of equal latency prefer fewer hops.
constexpr double kHopSeconds = 1.0e-9;

struct EdgeCost {
  double seconds = 0.0;
  std::size_t link = 0;
};
using Graph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, EdgeCost>;

Graph boost_graph(const DeviceGraph& devices, std::size_t destination) {
  Graph graph(devices.devices.size());
  for (std::size_t i = 0; i < devices.links.size(); ++i) {
    const Link& link = devices.links[i];
    const bool forwards =
        devices.devices[link.to].kind == DeviceKind::kGpu && link.to != destination;
    boost::add_edge(
        link.from, link.to,
        EdgeCost{link.latency.value + kHopSeconds + (forwards ? kForwardSeconds : 0.0), i}, graph);
  }
  return graph;
}

Hop hop_of(const DeviceGraph& devices, const Link& link) {
  return {device_name(devices.devices[link.from]) + " -> " + device_name(devices.devices[link.to]),
          link.bandwidth, link.latency, LinkKind::kOther};
}

void summarize(Route& route) {
  route.latency = Seconds(0.0);
  const Hop* slowest = nullptr;
  for (const Hop& hop : route.hops) {
    route.latency += hop.latency;
    if (slowest == nullptr || hop.bandwidth < slowest->bandwidth) {
      slowest = &hop;
    }
  }
  if (slowest != nullptr) {
    route.bottleneck = slowest->bandwidth;
    route.bottleneck_link = slowest->link;
    route.limit = slowest->kind;
  }
}

Route shortest_route(const DeviceGraph& devices, std::size_t source, std::size_t destination) {
  const Graph graph = boost_graph(devices, destination);
  std::vector<std::size_t> parent(devices.devices.size());
  boost::dijkstra_shortest_paths(
      graph, source,
      boost::predecessor_map(parent.data()).weight_map(boost::get(&EdgeCost::seconds, graph)));
  Route route;
  for (std::size_t at = destination; at != source; at = parent[at]) {
    if (parent[at] == at) {
      throw Error("topology", "GPUs " + device_name(devices.devices[source]) + " and " +
                                  device_name(devices.devices[destination]) + " are not connected");
    }
    const auto edge = boost::edge(parent[at], at, graph).first;
    route.hops.push_back(hop_of(devices, devices.links[graph[edge].link]));
  }
  std::ranges::reverse(route.hops);
  summarize(route);
  return route;
}

std::size_t find_gpu_vertex(const DeviceGraph& devices, std::int64_t node, std::int64_t index) {
  const auto found = std::ranges::find_if(devices.devices, [&](const Device& device) {
    return device.kind == DeviceKind::kGpu && device.node == node && device.index == index;
  });
  return static_cast<std::size_t>(found - devices.devices.begin());
}

// ECMP as switches do it: a hash of the flow's ends, so that one flow keeps its spine.
std::uint64_t hash_flow(std::uint64_t seed, std::uint64_t from, std::uint64_t to) {
  return random_bits(seed, from * 0x100000001b3ULL + to);
}

std::string count_text(int nics) {
  return std::to_string(nics) + (nics == 1 ? " NIC" : " NICs");
}

void check_rank(const Cluster& cluster, std::int64_t rank) {
  if (rank < 0 || rank >= cluster.gpus) {
    throw Error("rank", std::to_string(rank) + " is not one of the " +
                            std::to_string(cluster.gpus) + " GPUs of " + cluster.name);
  }
}

}  // namespace

Route route(const Cluster& cluster, std::int64_t from_rank, std::int64_t to_rank,
            std::uint64_t seed) {
  check_rank(cluster, from_rank);
  check_rank(cluster, to_rank);
  if (from_rank == to_rank) {
    return {};
  }
  const std::int64_t from_node = node_of_rank(cluster, from_rank);
  const std::int64_t to_node = node_of_rank(cluster, to_rank);
  DeviceGraph devices;
  if (from_node == to_node) {
    devices = node_graph(cluster, from_node);
  } else {
    const auto spines = static_cast<std::uint64_t>(std::max(1, fabric_shape(cluster).spines));
    const std::uint64_t hash =
        hash_flow(seed, static_cast<std::uint64_t>(from_rank), static_cast<std::uint64_t>(to_rank));
    devices = pair_graph(cluster, from_node, to_node, static_cast<int>(hash % spines));
  }
  const auto vertex = [&](std::int64_t node, std::int64_t rank) {
    return find_gpu_vertex(devices, node, rank - first_rank_of(cluster, node));
  };
  return shortest_route(devices, vertex(from_node, from_rank), vertex(to_node, to_rank));
}

Route group_bottleneck(const Cluster& cluster, const GroupShape& group) {
  Route result;
  if (group.ranks <= 1) {
    return result;
  }
  const NcclGraph graph = nccl_graph(cluster, group);
  if (graph.ranks_per_node > 1) {
    // The line rate behind what NCCL books, for as many links as a ring of this group uses.
    const bool nvlink = graph.path == IntraPath::kNvlink;
    const double share = nvlink ? nccl_nvlink_share(cluster.gpu.compute_capability) : 1.0;
    const Seconds latency = nvlink ? cluster.node.nvlink_latency : Seconds(1.5e-6);
    result.hops.push_back({nvlink ? "GPU -> GPU over NVLink" : "GPU -> GPU over PCIe",
                           BytesPerSecond(graph.intra_total / share * 1e9), latency,
                           nvlink ? LinkKind::kFast : LinkKind::kPcie});
  }
  if (graph.nodes > 1) {
    const double nics = graph.net_total * 1e9 / cluster.node.nic.value;
    result.hops.push_back({"node -> leaf over " + count_text(static_cast<int>(std::max(1.0, nics))),
                           BytesPerSecond(graph.net_total * 1e9),
                           2.0 * cluster.node.nic_latency + cluster.network.switch_latency,
                           LinkKind::kAdapter});
    if (unit_count(cluster) > 1) {
      result.hops.push_back({"leaf -> spine",
                             BytesPerSecond(graph.net_total * 1e9 / graph.uplink_slowdown),
                             2.0 * cluster.network.switch_latency, LinkKind::kUplink});
    }
  }
  summarize(result);
  return result;
}

}  // namespace trireme::topologies
