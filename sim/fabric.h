// The links of a cluster as the actors of a simulation load them. Links that carry the same are one
// link here, with one member's capacity: the NVLink port of every GPU of an actor, the NIC of every
// node that holds the same actors, the uplinks of every unit (the nodes below one set of leaves),
// pod or site that holds the same nodes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/ids.h"
#include "core/units.h"
#include "sim/actors.h"
#include "sim/flow_set.h"
#include "topologies/cluster.h"
#include "topologies/network_tiers.h"

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
  Fabric(const topologies::Cluster& cluster, const ActorGrid& grid, std::int64_t ranks,
         FlowSet& flows);

  // A ring over the members, node by node; shares are of the bytes that each member sends. NCCL
  // runs one ring a channel, and each channel leaves a node once, through another GPU: a node's
  // NICs together carry one member's bytes.
  [[nodiscard]] std::vector<Load> ring_loads(const std::vector<Rank>& members) const;
  // Every member sends the same to every other; shares are of the bytes that each member sends.
  [[nodiscard]] std::vector<Load> all_to_all_loads(const std::vector<Rank>& members) const;
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
    std::vector<Attachment> fast, nic;
    std::vector<std::vector<Attachment>> tiers;  // uplinks of units, pods, sites
  };
  using Shares = std::map<LinkIndex, double>;

  Duplex add_duplex(const std::string& name, BytesPerSecond sound, double factor,
                    std::int64_t count, FlowSet& flows);
  void add_node_class(std::int64_t node, std::int64_t count, const ActorGrid& grid, FlowSet& flows);
  void add_tier(std::size_t tier, const std::vector<std::uint32_t>& class_of_node,
                const ActorGrid& grid, FlowSet& flows);
  static void add(Shares& shares, const std::vector<Attachment>& where, double share, bool out,
                  bool in);
  static std::vector<Load> listed(const Shares& shares);
  [[nodiscard]] BytesPerSecond uplinks_of(std::int64_t first, std::int64_t nodes,
                                          double over) const;
  [[nodiscard]] std::int64_t node_of(Rank rank) const;
  [[nodiscard]] std::int64_t part_of(std::size_t tier, Rank rank) const;
  [[nodiscard]] double ring_hops(const std::vector<Rank>& members) const;

  struct Neighbourhood {
    double in_node = 0;           // members, itself included
    std::vector<double> in_part;  // by tier
    bool many_nodes = false;
    std::vector<bool> many_parts;
  };
  [[nodiscard]] std::map<std::uint32_t, Neighbourhood> neighbourhoods(
      const std::vector<Rank>& members) const;

  const topologies::Cluster& cluster_;
  const ActorGrid& grid_;
  std::int64_t ranks_ = 1;
  std::vector<topologies::NetworkTier> tiers_;
  std::vector<FabricLink> links_;
  std::vector<ActorLinks> of_actor_;
};

}  // namespace trireme::sim
