// Which fabric the links of a file make: pairs, meshes, switches.
#include "topologies/import/fabric.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "topologies/nccl_constants.h"

namespace trireme::topologies {
namespace {

int links_from(const NodeFacts& facts, std::size_t gpu) {
  return std::accumulate(facts.links[gpu].begin(), facts.links[gpu].end(), 0) +
         facts.switch_links[gpu];
}

// GB/s of one link one way where the card has none of its own: NVLink 2 to 4.
constexpr double kUsualLink = 25e9;

double link_rate(const Gpu& gpu, std::vector<std::string>& remarks) {
  if (gpu.nvlink_links > 0) {
    return gpu.nvlink_per_gpu.value / gpu.nvlink_links;
  }
  remarks.push_back(
      fmt::format("link rate: {:g} GB/s, since {} has no links by its data sheet; "
                  "nvlink_per_gpu says another",
                  kUsualLink * 1e-9, gpu.name));
  return kUsualLink;
}

bool on_switches(const NodeFacts& facts, const Gpu& gpu, int domain, bool all_peers, int out) {
  const int known = std::max(1, gpu.nvlink_links);
  const bool board = gpu.name.find("SXM") != std::string::npos || gpu.name.starts_with("GB") ||
                     gpu.name.starts_with("H20");
  const int each = *std::ranges::max_element(facts.links[0]);
  // A matrix prints the links to an NVSwitch for every pair, so that the sum over the peers exceeds
  // what a GPU has; two GPUs of a board have all their links between them.
  return facts.switch_links[0] > 0 || (all_peers && domain > 2 && out > known) ||
         (domain == 2 && board && each == known && gpu.compute_capability >= 80 &&
          gpu.compute_capability < 900);
}

// Links of the GPU that has fewest to the switches: it sets the pace of all. One that lacks some is
// named.
int switched_links(const NodeFacts& facts, std::vector<Doubt>& doubts) {
  std::vector<int> own;
  for (std::size_t gpu = 0; gpu < facts.links.size(); ++gpu) {
    // A matrix prints for a pair what the poorer of the two has.
    const int links = facts.switch_links[gpu] > 0 ? facts.switch_links[gpu]
                                                  : *std::ranges::max_element(facts.links[gpu]);
    own.push_back(links);
  }
  const int most = *std::ranges::max_element(own);
  int least = most;
  for (std::size_t gpu = 0; gpu < own.size(); ++gpu) {
    if (own[gpu] > 0 && own[gpu] < most) {
      least = std::min(least, own[gpu]);
      doubts.push_back({fmt::format("GPU{}", gpu),
                        fmt::format("{} links to the switches; others have {}", own[gpu], most),
                        "look at nvidia-smi nvlink -s for links that are down; reset the GPU, then "
                        "its baseboard, before it is replaced"});
    }
  }
  return least;
}

}  // namespace

std::vector<std::size_t> linked_domains(const NodeFacts& facts) {
  const auto count = static_cast<std::size_t>(facts.gpus);
  std::vector<std::size_t> domain(count);
  std::iota(domain.begin(), domain.end(), std::size_t{0});
  std::size_t first_switched = count;
  for (std::size_t gpu = 0; gpu < count; ++gpu) {
    if (facts.switch_links[gpu] > 0) {
      first_switched = std::min(first_switched, gpu);
      domain[gpu] = first_switched;
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t a = 0; a < count; ++a) {
      for (std::size_t b = 0; b < count; ++b) {
        if (facts.links[a][b] > 0 && domain[b] < domain[a]) {
          domain[a] = domain[b];
          changed = true;
        }
      }
    }
  }
  return domain;
}

void set_fabric(Imported& imported, const NodeFacts& facts) {
  Node& node = imported.cluster.node;
  const Gpu& gpu = imported.cluster.gpu;
  const std::vector<std::size_t> domains = linked_domains(facts);
  std::map<std::size_t, int> sizes;
  int most_out = 0;
  for (std::size_t i = 0; i < domains.size(); ++i) {
    ++sizes[domains[i]];
    most_out = std::max(most_out, links_from(facts, i));
  }
  const int domain =
      std::ranges::max_element(sizes, {}, [](const auto& s) { return s.second; })->second;
  node.nvlink_domain = domain;
  if (domain <= 1) {
    node.fabric = Node::Fabric::kPcie;
    node.nvlink_links = 0;
    node.nvlink_per_gpu = BytesPerSecond(0.0);
    return;
  }
  const double per_link = link_rate(gpu, imported.remarks);
  const bool all_peers = std::ranges::all_of(facts.links, [domain](const std::vector<int>& row) {
    const auto peers = std::ranges::count_if(row, [](int n) { return n > 0; });
    return peers == domain - 1 || peers == 0;
  });
  if (on_switches(facts, gpu, domain, all_peers, most_out)) {
    node.fabric = Node::Fabric::kNvSwitch;
    node.nvlink_links = switched_links(facts, imported.doubts);
  } else {
    node.fabric = domain == 2 ? Node::Fabric::kPairs
                              : (all_peers ? Node::Fabric::kMesh : Node::Fabric::kCubeMesh);
    node.nvlink_links = most_out;
  }
  node.nvlink_per_gpu = BytesPerSecond(per_link * node.nvlink_links);
}

void doubt_hidden_links(Imported& imported, const Cluster& usual) {
  const Node& node = imported.cluster.node;
  if (usual.node.fabric == Node::Fabric::kNvSwitch && node.gpus > 1 && node.nvlink_links == 0) {
    imported.doubts.push_back(
        {"NVLink",
         fmt::format("none between the GPUs, where each of a {} has {} links; taken as the file "
                     "shows it",
                     usual.name, usual.node.nvlink_links),
         "print nvidia-smi topo -m, since -mp hides them; if it shows none either, look at "
         "nvidia-smi nvlink -s and at nvidia-fabricmanager"});
  }
}

bool links_are_direct(const NodeFacts& facts, const Gpu& gpu) {
  return facts.links_told && facts.switch_links[0] == 0 && links_from(facts, 0) > 0 &&
         links_from(facts, 0) <= gpu.nvlink_links;
}

void count_links(NodeFacts& facts, const Gpu& gpu) {
  const double own =
      gpu.nvlink_links > 0 ? gpu.nvlink_per_gpu.value / gpu.nvlink_links : kUsualLink;
  const double booked = nccl_nvlink_share(gpu.compute_capability) * own * 1e-9;
  for (std::vector<int>& row : facts.links) {
    for (int& links : row) {
      links = links > 0 ? std::max(1, static_cast<int>(std::lround(links / booked))) : 0;
    }
  }
}

}  // namespace trireme::topologies
