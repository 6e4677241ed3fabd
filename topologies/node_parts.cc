#include "topologies/node_parts.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "topologies/cluster_graph.h"
#include "topologies/node_groups.h"
#include "topologies/node_layout.h"

namespace trireme::topologies {
namespace {

constexpr std::size_t kNowhere = ~std::size_t{0};

bool on_pcie(DeviceKind kind) {
  return kind == DeviceKind::kGpu || kind == DeviceKind::kNic || kind == DeviceKind::kPcieSwitch ||
         kind == DeviceKind::kCpu;
}

// The PCIe side of a node's graph as a tree below each socket.
struct Tree {
  explicit Tree(const DeviceGraph& devices)
      : above(devices.devices.size(), kNowhere), out(devices.devices.size()) {
    const auto kind = [&](std::size_t at) { return devices.devices[at].kind; };
    for (std::size_t i = 0; i < devices.devices.size(); ++i) {
      if (kind(i) == DeviceKind::kCpu) {
        order.push_back(i);
      }
    }
    for (const Link& link : devices.links) {  // sockets: the links to all others together
      if (kind(link.from) == DeviceKind::kCpu && kind(link.to) == DeviceKind::kCpu) {
        out[link.from] = BytesPerSecond(out[link.from].value + link.bandwidth.value);
      }
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (const Link& link : devices.links) {
        const bool down = link.from == order[i] && on_pcie(kind(link.to)) &&
                          kind(link.from) != DeviceKind::kGpu && kind(link.to) != DeviceKind::kCpu;
        if (down && link.to != above[order[i]] && above[link.to] == kNowhere) {
          above[link.to] = order[i];
          out[link.to] = link.bandwidth;
          order.push_back(link.to);
        }
      }
    }
  }
  std::vector<std::size_t> order;  // from the sockets down
  std::vector<std::size_t> above;  // kNowhere: a socket, or not on PCIe
  std::vector<BytesPerSecond>
      out;  // of the link towards what is above, or of those to other sockets
};

std::vector<NodePart> parts_of(const DeviceGraph& devices, const NodeLayout& layout) {
  const Tree tree(devices);
  std::vector<NodePart> by_device(devices.devices.size());
  for (std::size_t i = 0; i < by_device.size(); ++i) {
    by_device[i] = {device_name(Device{devices.devices[i].kind, 0, devices.devices[i].index}),
                    tree.out[i], std::vector<bool>(layout.gpus.size()),
                    std::vector<bool>(layout.nics.size())};
  }
  for (const std::size_t at : tree.order) {
    const Device& device = devices.devices[at];
    for (std::size_t up = at; up != kNowhere; up = tree.above[up]) {
      if (device.kind == DeviceKind::kGpu) {
        by_device[up].gpus[static_cast<std::size_t>(device.index)] = true;
      } else if (device.kind == DeviceKind::kNic) {
        by_device[up].nics[static_cast<std::size_t>(device.index)] = true;
      }
    }
  }
  std::vector<NodePart> parts;
  for (const std::size_t at : tree.order) {
    const DeviceKind kind = devices.devices[at].kind;
    if (kind == DeviceKind::kPcieSwitch || kind == DeviceKind::kCpu) {
      parts.push_back(std::move(by_device[at]));
    }
  }
  return parts;
}

// GPUs that talk over PCIe on both sides, or adapters that together carry more than the link does
// with their GPUs on the other side. A link of unknown rate is none.
bool can_be_narrow(const NodePart& part, const NodeParts& node, const Node& shape, bool peers) {
  std::vector<bool> crossing(part.nics.size());
  for (std::size_t gpu = 0; gpu < part.gpus.size(); ++gpu) {
    const auto nic = static_cast<std::size_t>(node.nics[gpu]);
    if (nic < part.nics.size() && part.gpus[gpu] != part.nics[nic]) {
      crossing[nic] = true;
    }
  }
  const auto inside = std::ranges::count(part.gpus, true);
  const bool both = inside > 0 && inside < static_cast<std::ptrdiff_t>(part.gpus.size());
  const auto nics = static_cast<double>(std::ranges::count(crossing, true));
  return part.out.value > 0 && ((peers && both) || shape.nic * nics > part.out);
}

}  // namespace

NodeParts node_parts(const Cluster& cluster, std::int64_t node) {
  const Node& shape = node_at(cluster, node);
  const NodeLayout layout = layout_of(shape);
  NodeParts result;
  result.order.resize(layout.gpus.size());
  std::iota(result.order.begin(), result.order.end(), 0);
  std::ranges::stable_sort(result.order, {}, [&](int gpu) {
    const Place& place = layout.gpus[static_cast<std::size_t>(gpu)];
    return std::tuple(place.socket, place.bridge, place.tree, place.leaf);
  });
  for (int gpu = 0; gpu < shape.gpus; ++gpu) {
    result.nics.push_back(nic_of(shape, gpu));
  }
  const bool peers = !joined_by_links(shape, result.order);
  result.parts = parts_of(node_graph(cluster, node), layout);
  std::erase_if(result.parts,
                [&](const NodePart& part) { return !can_be_narrow(part, result, shape, peers); });
  return result;
}

int nic_of(const Node& node, int gpu) {
  if (node.nics <= 0 || node.gpus <= 0) {
    return 0;
  }
  if (!node.layout || node.layout->nics.empty()) {
    return static_cast<int>(std::int64_t{gpu} * node.nics / node.gpus);
  }
  const NodeLayout& layout = *node.layout;
  const Place& own = layout.gpus[static_cast<std::size_t>(gpu)];
  std::vector<int> nearest;
  Path least = Path::kSystem;
  for (std::size_t nic = 0; nic < layout.nics.size(); ++nic) {
    const Path path = path_between(own, layout.nics[nic]);
    if (path < least) {
      nearest.clear();
      least = path;
    }
    if (path == least) {
      nearest.push_back(static_cast<int>(nic));
    }
  }
  return nearest[static_cast<std::size_t>(gpu) % nearest.size()];
}

BytesPerSecond pcie_carries(BytesPerSecond raw) {
  return raw * 0.85;
}

BytesPerSecond gpu_pcie(const Node& node, int gpu) {
  const auto at = static_cast<std::size_t>(gpu);
  const bool own =
      node.layout && at < node.layout->gpus.size() && node.layout->gpus[at].rate.value > 0.0;
  return own ? node.layout->gpus[at].rate : node.pcie_per_gpu;
}

BytesPerSecond adapter_rate(const Node& node, int nic) {
  const auto at = static_cast<std::size_t>(nic);
  const bool own =
      node.layout && at < node.layout->nics.size() && node.layout->nics[at].rate.value > 0.0;
  return own ? std::min(node.nic, pcie_carries(node.layout->nics[at].rate)) : node.nic;
}

bool joined_by_links(const Node& node, const std::vector<int>& gpus) {
  const LinkCounts links =
      node.layout && !node.layout->links.empty() ? node.layout->links : fabric_links(node);
  if (!links.empty()) {
    return joined(links, gpus);
  }
  const int domain = std::max(1, node.nvlink_domain);
  return std::ranges::all_of(
      gpus, [&](int gpu) { return domain > 1 && gpu / domain == gpus.front() / domain; });
}

}  // namespace trireme::topologies
