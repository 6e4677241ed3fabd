#include "topologies/node_layout.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "core/check.h"

namespace trireme::topologies {

bool joined(const LinkCounts& links, const std::vector<int>& members) {
  std::vector<bool> reached(members.size(), false);
  std::vector<std::size_t> open = {0};
  reached[0] = true;
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    for (std::size_t to = 0; to < members.size(); ++to) {
      if (!reached[to] &&
          links[static_cast<std::size_t>(members[at])][static_cast<std::size_t>(members[to])] > 0) {
        reached[to] = true;
        open.push_back(to);
      }
    }
  }
  return std::ranges::find(reached, false) == reached.end();
}

namespace {

using Label = int Place::*;
constexpr std::array<Label, 4> kLabels = {&Place::socket, &Place::bridge, &Place::tree,
                                          &Place::leaf};

// The same places under the numbers 0, 1, 2, ... in order of first appearance.
void renumber(std::vector<Place>& gpus, std::vector<Place>& nics) {
  for (const Label label : kLabels) {
    std::map<int, int> fresh;
    for (std::vector<Place>* places : {&gpus, &nics}) {
      for (Place& place : *places) {
        place.*label = fresh.emplace(place.*label, static_cast<int>(fresh.size())).first->second;
      }
    }
  }
}

// A ring ordered by place crosses the widest gap between neighbours of that order.
Path widest_path(const std::vector<Place>& gpus, const std::vector<int>& members) {
  std::vector<Place> sorted;
  sorted.reserve(members.size());
  for (const int member : members) {
    sorted.push_back(gpus[static_cast<std::size_t>(member)]);
  }
  std::ranges::sort(sorted, [](const Place& a, const Place& b) {
    return std::array{a.socket, a.bridge, a.tree, a.leaf} <
           std::array{b.socket, b.bridge, b.tree, b.leaf};
  });
  Path widest = Path::kSwitch;
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    widest = std::max(widest, path_between(sorted[i - 1], sorted[i]));
  }
  return widest;
}

Path nearest_path(const std::vector<Place>& gpus, const Place& nic) {
  Path nearest = Path::kSystem;
  for (const Place& gpu : gpus) {
    nearest = std::min(nearest, path_between(gpu, nic));
  }
  return nearest;
}

GroupPath worse(const GroupPath& a, const GroupPath& b) {
  return {a.linked && b.linked, std::min(a.rings, b.rings), std::max(a.widest, b.widest)};
}

GroupPath worst_group(const NodeLayout& layout, int ranks, int stride) {
  const auto gpus = static_cast<int>(layout.gpus.size());
  GroupPath worst{true, 1e9, Path::kSame};
  for (int block = 0; block + (ranks - 1) * stride < gpus; block += ranks * stride) {
    for (int first = block; first < block + stride && first + (ranks - 1) * stride < gpus;
         ++first) {
      std::vector<int> members;
      members.reserve(static_cast<std::size_t>(ranks));
      for (int i = 0; i < ranks; ++i) {
        members.push_back(first + i * stride);
      }
      GroupPath path{false, 0, widest_path(layout.gpus, members)};
      if (!layout.links.empty() && joined(layout.links, members)) {
        path.linked = true;
        path.rings = ring_count(layout.links, members);
      }
      worst = worse(worst, path);
    }
  }
  return worst;
}

// Paths stand in order of stride, then degree.
std::size_t path_index(std::size_t gpus, std::size_t ranks, std::size_t stride) {
  return (stride - 1) * (gpus + 1) + ranks;
}

}  // namespace

Path path_between(const Place& a, const Place& b) {
  if (a.socket != b.socket) {
    return Path::kSystem;
  }
  if (a.bridge != b.bridge) {
    return Path::kNode;
  }
  if (a.tree != b.tree) {
    return Path::kBridge;
  }
  return a.leaf == b.leaf ? Path::kSwitch : Path::kTree;
}

std::string path_name(Path path) {
  constexpr std::array<std::string_view, 6> kNames = {"X", "PIX", "PXB", "PHB", "NODE", "SYS"};
  return std::string(kNames[static_cast<std::size_t>(path)]);
}

std::shared_ptr<const NodeLayout> make_layout(std::vector<Place> gpus, std::vector<Place> nics,
                                              LinkCounts links) {
  TRIREME_CHECK(!gpus.empty() && gpus.size() <= static_cast<std::size_t>(kLayoutGpusMost));
  auto layout = std::make_shared<NodeLayout>();
  renumber(gpus, nics);
  layout->gpus = std::move(gpus);
  layout->nics = std::move(nics);
  layout->links = std::move(links);
  for (const Place& nic : layout->nics) {
    layout->nic_path = std::max(layout->nic_path, nearest_path(layout->gpus, nic));
  }
  const std::size_t count = layout->gpus.size();
  layout->paths.resize(count * (count + 1));
  for (std::size_t stride = 1; stride < count; ++stride) {
    for (std::size_t ranks = 2; (ranks - 1) * stride < count; ++ranks) {
      layout->paths[path_index(count, ranks, stride)] =
          worst_group(*layout, static_cast<int>(ranks), static_cast<int>(stride));
    }
  }
  return layout;
}

const GroupPath& path_of(const NodeLayout& layout, int ranks, std::int64_t stride) {
  const std::size_t count = layout.gpus.size();
  const auto degree = std::clamp<std::size_t>(static_cast<std::size_t>(ranks), 1, count);
  const std::size_t most = degree > 1 ? (count - 1) / (degree - 1) : 1;
  const auto apart =
      std::clamp<std::size_t>(static_cast<std::size_t>(stride), 1, std::max<std::size_t>(most, 1));
  return layout.paths[path_index(count, degree, apart)];
}

NodeLayout layout_of(const Node& node) {
  if (node.layout) {
    return *node.layout;
  }
  NodeLayout layout;
  const int per_switch = std::max(1, node.gpus_per_pcie_switch);
  const int switches = (node.gpus + per_switch - 1) / per_switch;
  const int sockets = std::max(1, node.sockets);
  const auto place = [&](int s) {
    const auto socket = static_cast<int>(std::int64_t{s} * sockets / switches);
    return Place{socket, s, s, s, {}};
  };
  for (int i = 0; i < node.gpus; ++i) {
    layout.gpus.push_back(place(i / per_switch));
  }
  for (int i = 0; i < node.nics; ++i) {
    layout.nics.push_back(place(static_cast<int>(std::int64_t{i} * switches / node.nics)));
  }
  layout.links = fabric_links(node);
  return layout;
}

bool is_regular(const Node& node, const NodeLayout& layout) {
  Node counts = node;
  counts.layout = nullptr;
  NodeLayout regular = layout_of(counts);
  renumber(regular.gpus, regular.nics);
  return regular.gpus == layout.gpus && regular.nics == layout.nics &&
         (layout.links.empty() || regular.links == layout.links);
}

std::shared_ptr<const NodeLayout> cropped(const NodeLayout& layout, int gpus, int nics) {
  const auto count = static_cast<std::size_t>(gpus);
  std::vector<Place> kept(layout.gpus.begin(), layout.gpus.begin() + gpus);
  LinkCounts links(layout.links.empty() ? 0 : count);
  for (std::size_t i = 0; i < links.size(); ++i) {
    links[i].assign(layout.links[i].begin(), layout.links[i].begin() + gpus);
  }
  const auto distance = [&kept](const Place& nic) { return nearest_path(kept, nic); };
  std::vector<Place> near = layout.nics;
  std::ranges::stable_sort(near, {}, distance);
  near.resize(std::min(near.size(), static_cast<std::size_t>(std::max(nics, 0))));
  return make_layout(std::move(kept), std::move(near), std::move(links));
}

int cube_mesh_links(int a, int b) {
  // nvidia-smi topo -m of a DGX-1 V100.
  constexpr std::array<std::array<int, 8>, 8> kLinks = {{{0, 1, 1, 2, 2, 0, 0, 0},
                                                         {1, 0, 2, 1, 0, 2, 0, 0},
                                                         {1, 2, 0, 2, 0, 0, 1, 0},
                                                         {2, 1, 2, 0, 0, 0, 0, 1},
                                                         {2, 0, 0, 0, 0, 1, 1, 2},
                                                         {0, 2, 0, 0, 1, 0, 2, 1},
                                                         {0, 0, 1, 0, 1, 2, 0, 2},
                                                         {0, 0, 0, 1, 2, 1, 2, 0}}};
  return kLinks[static_cast<std::size_t>(a % 8)][static_cast<std::size_t>(b % 8)];
}

LinkCounts fabric_links(const Node& node) {
  const bool cube = node.fabric == Node::Fabric::kCubeMesh;
  if (!cube && node.fabric != Node::Fabric::kMesh && node.fabric != Node::Fabric::kPairs) {
    return {};
  }
  const int domain = std::max(1, node.nvlink_domain);
  const int each = std::max(1, node.nvlink_links / std::max(1, domain - 1));
  const auto count = static_cast<std::size_t>(node.gpus);
  LinkCounts links(count, std::vector<int>(count, 0));
  for (int a = 0; a < node.gpus; ++a) {
    for (int b = 0; b < node.gpus; ++b) {
      if (a != b) {
        links[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)] =
            cube ? cube_mesh_links(a, b) : (a / domain == b / domain ? each : 0);
      }
    }
  }
  return links;
}

}  // namespace trireme::topologies
