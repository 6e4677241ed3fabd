#include "topologies/drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "topologies/cluster_graph.h"
#include "topologies/node_groups.h"
#include "topologies/node_layout.h"

namespace trireme::topologies {
namespace {

// " at 8 GB/s" where a device's own link is not the node's.
std::string own_rate(const Place& place) {
  return place.rate.value > 0.0 ? fmt::format(" at {:g} GB/s", gigabytes(place.rate)) : "";
}

// "GPU0-3", "GPU0 GPU2" of sorted indices.
std::string gpu_range(const std::vector<std::size_t>& gpus) {
  const bool run = gpus.size() > 2 && gpus.back() - gpus.front() + 1 == gpus.size();
  if (run) {
    return fmt::format("GPU{}-{}", gpus.front(), gpus.back());
  }
  std::string text;
  for (const std::size_t gpu : gpus) {
    text += fmt::format("{}GPU{}", text.empty() ? "" : " ", gpu);
  }
  return text;
}

std::string links_drawing(const Node& node, const LinkCounts& links) {
  if (node.fabric == Node::Fabric::kNvSwitch) {
    std::string text;
    const int domain = std::max(1, node.nvlink_domain);
    for (int first = 0; first < node.gpus && domain > 1; first += domain) {
      text += fmt::format("  NVSwitch: GPU{}-{}, {:g} GB/s each, one way\n", first,
                          std::min(first + domain, node.gpus) - 1, gigabytes(node.nvlink_per_gpu));
    }
    return text;
  }
  // GPUs that a GPU has equally many links to, a line a GPU.
  std::string text;
  for (std::size_t a = 0; a < links.size(); ++a) {
    std::map<int, std::vector<std::size_t>, std::greater<>> peers;
    for (std::size_t b = 0; b < links[a].size(); ++b) {
      if (links[a][b] > 0) {
        peers[links[a][b]].push_back(b);
      }
    }
    for (const auto& [count, gpus] : peers) {
      text += fmt::format("  GPU{}: {} link{} to {}\n", a, count,
                          count == 1 ? "" : (gpus.size() == 1 ? "s" : "s each"), gpu_range(gpus));
    }
  }
  return text.empty() && !node.peer_to_peer ? "  GPUs reach each other through host memory\n"
                                            : text;
}

}  // namespace

std::string node_drawing(const Cluster& cluster, std::int64_t index) {
  const Node& node = node_at(cluster, index);
  const NodeLayout layout = layout_of(node);
  const std::int64_t first = first_rank_of(cluster, index);
  // By socket, root port and switch: what hangs there.
  std::map<int, std::map<int, std::map<int, std::string>>> below;
  const auto hang = [&below](const Place& place, const std::string& device) {
    std::string& line = below[place.socket][place.tree][place.leaf];
    line += (line.empty() ? "" : "  ") + device + own_rate(place);
  };
  for (std::size_t i = 0; i < layout.gpus.size(); ++i) {
    const std::int64_t rank = first + static_cast<std::int64_t>(i);
    hang(layout.gpus[i], rank < cluster.gpus ? fmt::format("GPU{} (rank {})", i, rank)
                                             : fmt::format("GPU{} (not in use)", i));
  }
  for (std::size_t i = 0; i < layout.nics.size(); ++i) {
    hang(layout.nics[i], fmt::format("NIC{}", i));
  }
  std::string text = fmt::format("node {}\n", index);
  for (const auto& [socket, trees] : below) {
    text += fmt::format("  CPU{}\n", socket);
    for (const auto& [tree, leaves] : trees) {
      const bool shared = leaves.size() > 1;  // switches below one root port
      text += shared ? "    root port\n" : "";
      for (const auto& [leaf, devices] : leaves) {
        text += fmt::format("{}    {}\n", shared ? "  " : "", devices);
      }
    }
  }
  return text + links_drawing(node, layout.links);
}

std::string dot_text(const Cluster& cluster) {
  const std::int64_t other = std::max<std::int64_t>(cluster.nodes, 1) - 1;  // the last one
  const DeviceGraph graph = other == 0 ? node_graph(cluster, 0) : pair_graph(cluster, 0, other, 0);
  std::string text = fmt::format("graph \"{}\" {{\n  node [shape=box]\n", cluster.name);
  for (std::size_t i = 0; i < graph.devices.size(); ++i) {
    const Device& device = graph.devices[i];
    std::string label = device_name(device);
    if (device.kind == DeviceKind::kGpu) {
      label += fmt::format("\\nrank {}", first_rank_of(cluster, device.node) + device.index);
    }
    text += fmt::format("  d{} [label=\"{}\"]\n", i, label);
  }
  for (const Link& link : graph.links) {
    if (link.from < link.to) {
      text += fmt::format("  d{} -- d{} [label=\"{:g} GB/s\"]\n", link.from, link.to,
                          gigabytes(link.bandwidth));
    }
  }
  return text + "}\n";
}

}  // namespace trireme::topologies
