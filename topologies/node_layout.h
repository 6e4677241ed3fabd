// Which GPU and NIC of a node hangs where: sockets, host bridges, PCIe switches and the links
// between GPUs, as a real machine has them. Regular nodes are laid out from their counts.
#pragma once

#include <cstdint>
#include <vector>

#include "topologies/cluster.h"

namespace trireme::topologies {

// As people write a rate: GB/s.
inline double gigabytes(BytesPerSecond rate) {
  return rate.value * 1e-9;
}

// Devices that share a number share that part of the way to memory; each part lies within the next.
struct Place {
  int socket = 0;       // CPU socket or NUMA node
  int bridge = 0;       // host bridge
  int tree = 0;         // below one root port
  int leaf = 0;         // below one switch
  BytesPerSecond rate;  // of the device's PCIe link, where unlike the node's; 0: the node's
  friend bool operator==(const Place&, const Place&) = default;
};
Path path_between(const Place& a, const Place& b);
// "X", "PIX", "PXB", "PHB", "NODE", "SYS".
std::string path_name(Path path);

using LinkCounts = std::vector<std::vector<int>>;  // symmetric, zero on the diagonal

// How the members of a group inside one node reach each other, at worst over the groups of a kind.
struct GroupPath {
  bool linked = false;        // NVLink or xGMI joins all of them
  double rings = 0;           // directed rings over the members' links, in links
  Path widest = Path::kSame;  // that a ring ordered by place has to cross
};

// Make it with make_layout, which computes the paths of every group.
struct NodeLayout {
  std::vector<Place> gpus;
  std::vector<Place> nics;
  LinkCounts links;               // between GPUs; empty: what the node's fabric says
  std::vector<GroupPath> paths;   // by degree and stride, see path_of
  Path nic_path = Path::kSwitch;  // of the NIC that is farthest from its nearest GPU
};

// Layouts are for nodes of at most this many GPUs.
constexpr int kLayoutGpusMost = 64;

// Numbers places by their first appearance, checks nothing.
std::shared_ptr<const NodeLayout> make_layout(std::vector<Place> gpus, std::vector<Place> nics,
                                              LinkCounts links);
// Of a group of `ranks` GPUs, `stride` apart.
const GroupPath& path_of(const NodeLayout& layout, int ranks, std::int64_t stride);
// The node's own layout, or the one that its counts make.
NodeLayout layout_of(const Node& node);
// Whether `layout` is what the node's counts make by themselves.
bool is_regular(const Node& node, const NodeLayout& layout);
// The layout of the first `gpus` GPUs and `nics` NICs nearest to them.
std::shared_ptr<const NodeLayout> cropped(const NodeLayout& layout, int gpus, int nics);

// Links between GPUs that a node's fabric makes: meshes, pairs and cube meshes; empty for switches
// and PCIe.
LinkCounts fabric_links(const Node& node);
// Links between two GPUs of a DGX-1 V100 cube mesh: 0, 1 or 2.
int cube_mesh_links(int a, int b);

// Whether the links join all of `members`, through one another.
bool joined(const LinkCounts& links, const std::vector<int>& members);
// Directed rings that visit every GPU of `members` once and share no link, as many as the search
// finds; where no such ring exists, what the least cut lets through with GPUs forwarding.
int ring_count(const LinkCounts& links, const std::vector<int>& members);

}  // namespace trireme::topologies
