// The links of a cluster as the actors of a simulation load them. Links that carry the same are one
// link here, with one member's capacity: the NVLink port of every GPU of an actor, the NIC of every
// node that holds the same actors, the link out of a PCIe switch or a socket of such nodes, the
// uplinks of every unit (the nodes below one set of leaves), pod or site that holds the same nodes.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/ids.h"
#include "core/program.h"
#include "core/units.h"
#include "sim/actors.h"
#include "sim/flow_set.h"
#include "topologies/cluster.h"
#include "topologies/network_tiers.h"
#include "topologies/node_parts.h"

namespace trireme::sim {

struct FabricLink {
  std::string name;
  BytesPerSecond capacity;        // as it is, degraded or not
  BytesPerSecond sound_capacity;  // as it was built
  std::int64_t links = 1;         // how many it stands for
};

// What one transfer puts on one link: `share` of its wire bytes.
struct Load {
  LinkIndex link{};
  double share = 0;
};

class Fabric {
 public:
  // Adds its links to `flows`.
  Fabric(const StepProgram& program, const topologies::Cluster& cluster, const ActorGrid& grid,
         FlowSet& flows);

  // Loads of all groups that do as the rank's does: those of the same kind and actors.
  // A ring over the members, node by node; shares are of the bytes that each member sends. NCCL
  // runs one ring a channel, and each channel leaves a node once, through another GPU: a node's
  // NICs together carry one member's bytes.
  [[nodiscard]] std::vector<Load> ring_loads(GroupId group, Rank rank) const;
  // Every member sends the same to every other; shares are of the bytes that each member sends.
  [[nodiscard]] std::vector<Load> all_to_all_loads(GroupId group, Rank rank) const;
  [[nodiscard]] std::vector<Load> message_loads(Rank from, Rank to) const;

  [[nodiscard]] const std::vector<FabricLink>& links() const { return links_; }

 private:
  struct Duplex {
    LinkIndex out{}, in{};
  };
  struct Attachment {  // of an actor to one class of nodes or units
    Duplex link;
    double ranks = 1;  // of the actor that share the link
  };
  struct ActorLinks {
    std::vector<Attachment> fast, pcie, nic;
    std::vector<std::vector<Attachment>> tiers;  // uplinks of units, pods, sites
  };
  struct NodeClass {  // nodes that are alike
    std::int64_t first = 0;
    topologies::NodeParts shape;
    std::vector<Duplex> links;  // out of each part
  };
  struct GpusHere {  // of one actor in one node
    std::int64_t count = 0;
    BytesPerSecond pcie;  // what the link of the one on the narrowest carries
  };
  struct Port {  // of a node
    enum class Kind { kGpu, kNic } kind = Kind::kGpu;
    int index = 0;
  };
  using Shares = std::map<LinkIndex, double>;

  Duplex add_duplex(const std::string& name, BytesPerSecond sound, double factor,
                    std::int64_t count, FlowSet& flows);
  void add_node_class(std::int64_t node, std::int64_t count, const ActorGrid& grid, FlowSet& flows);
  void add_parts(std::int64_t node, std::int64_t count, FlowSet& flows);
  void add_own_pcie(const std::map<std::uint32_t, GpusHere>& gpus_of, const topologies::Node& shape,
                    std::int64_t count, FlowSet& flows);
  void add_tier(std::size_t tier, const std::vector<std::uint32_t>& class_of_node,
                const ActorGrid& grid, FlowSet& flows);
  static void add(Shares& shares, const std::vector<Attachment>& where, double share, bool out,
                  bool in);
  static std::vector<Load> listed(const Shares& shares);
  [[nodiscard]] std::int64_t node_of(Rank rank) const;
  [[nodiscard]] std::int64_t part_of(std::size_t tier, Rank rank) const;
  // Of a class's own node: its ranks that `actors` hold, by the group that each is in.
  [[nodiscard]] std::vector<std::vector<int>> members_inside(
      const NodeClass& node, GroupId group, const std::set<std::uint32_t>& actors) const;
  static void add_crossings(Shares& shares, const NodeClass& node, Port from, Port to,
                            double share);
  void add_parts_of_rings(Shares& shares, GroupId group, const std::vector<Rank>& members) const;
  void add_parts_of_exchange(Shares& shares, GroupId group, const std::vector<Rank>& members) const;
  void add_parts_of_messages(Shares& shares, Rank from, Rank to) const;
  [[nodiscard]] double ring_hops(const std::vector<Rank>& members) const;

  struct Neighbourhood {
    double in_node = 0;           // members, itself included
    std::vector<double> in_part;  // by tier
    bool many_nodes = false;
    std::vector<bool> many_parts;
  };
  [[nodiscard]] std::map<std::uint32_t, Neighbourhood> neighbourhoods(
      const std::vector<Rank>& members) const;

  const StepProgram& program_;
  const topologies::Cluster& cluster_;
  const ActorGrid& grid_;
  std::int64_t ranks_ = 1;
  std::vector<topologies::NetworkTier> tiers_;
  std::vector<FabricLink> links_;
  std::vector<ActorLinks> of_actor_;
  std::vector<NodeClass> narrow_nodes_;  // those with parts that can be narrow
};

}  // namespace trireme::sim
