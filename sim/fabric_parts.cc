// What transfers put on the links out of PCIe switches and sockets: whatever has one end below such
// a part and the other end elsewhere. Only ways over PCIe count: NVLink passes no switch of these.
#include <algorithm>
#include <map>

#include "sim/fabric.h"
#include "topologies/node_groups.h"

namespace trireme::sim {
namespace {

std::set<std::uint32_t> actors_of(const ActorGrid& grid, const std::vector<Rank>& members) {
  std::set<std::uint32_t> actors;
  for (const Rank member : members) {
    actors.insert(grid.actor_of(member));
  }
  return actors;
}

}  // namespace

std::vector<std::vector<int>> Fabric::members_inside(const NodeClass& node, GroupId group,
                                                     const std::set<std::uint32_t>& actors) const {
  std::map<Rank, std::vector<int>> groups;  // by their first member
  const std::int64_t first = first_rank_of(cluster_, node.first);
  for (const int gpu : node.shape.order) {
    const std::int64_t rank = first + gpu;
    if (rank < ranks_ && actors.contains(grid_.actor_of(static_cast<Rank>(rank)))) {
      groups[first_member(program_, group, static_cast<Rank>(rank))].push_back(gpu);
    }
  }
  std::vector<std::vector<int>> listed;
  listed.reserve(groups.size());
  for (auto& [first_one, members] : groups) {
    listed.push_back(std::move(members));
  }
  return listed;
}

void Fabric::add_crossings(Shares& shares, const NodeClass& node, Port from, Port to,
                           double share) {
  for (std::size_t i = 0; i < node.links.size(); ++i) {
    const topologies::NodePart& part = node.shape.parts[i];
    const auto inside = [&part](Port port) {
      const auto& own = port.kind == Port::Kind::kGpu ? part.gpus : part.nics;
      const auto at = static_cast<std::size_t>(port.index);
      return at < own.size() && own[at];
    };
    if (share > 0 && inside(from) != inside(to)) {
      shares[inside(from) ? node.links[i].out : node.links[i].in] += share;
    }
  }
}

void Fabric::add_parts_of_rings(Shares& shares, GroupId group,
                                const std::vector<Rank>& members) const {
  if (narrow_nodes_.empty()) {
    return;
  }
  const std::set<std::uint32_t> actors = actors_of(grid_, members);
  for (const NodeClass& node : narrow_nodes_) {
    for (const std::vector<int>& inside : members_inside(node, group, actors)) {
      const double leaving =
          inside.size() < members.size() ? 1.0 / static_cast<double>(inside.size()) : 0.0;
      const bool linked = joined_by_links(node_at(cluster_, node.first), inside);
      for (std::size_t i = 0; i < inside.size(); ++i) {
        const Port own{Port::Kind::kGpu, inside[i]};
        const Port next{Port::Kind::kGpu, inside[(i + 1) % inside.size()]};
        const Port nic{Port::Kind::kNic, node.shape.nics[static_cast<std::size_t>(inside[i])]};
        add_crossings(shares, node, own, next, linked ? 0.0 : 1.0 - leaving);
        add_crossings(shares, node, own, nic, leaving);
        add_crossings(shares, node, nic, own, leaving);
      }
    }
  }
}

void Fabric::add_parts_of_exchange(Shares& shares, GroupId group,
                                   const std::vector<Rank>& members) const {
  if (narrow_nodes_.empty()) {
    return;
  }
  const std::set<std::uint32_t> actors = actors_of(grid_, members);
  const double others = static_cast<double>(members.size()) - 1;
  for (const NodeClass& node : narrow_nodes_) {
    for (const std::vector<int>& inside : members_inside(node, group, actors)) {
      const double leaving = (others + 1 - static_cast<double>(inside.size())) / others;
      const bool linked = joined_by_links(node_at(cluster_, node.first), inside);
      for (const int gpu : inside) {
        const Port own{Port::Kind::kGpu, gpu};
        const Port nic{Port::Kind::kNic, node.shape.nics[static_cast<std::size_t>(gpu)]};
        for (const int other : inside) {
          add_crossings(shares, node, own, {Port::Kind::kGpu, other}, linked ? 0.0 : 1.0 / others);
        }
        add_crossings(shares, node, own, nic, leaving);
        add_crossings(shares, node, nic, own, leaving);
      }
    }
  }
}

// Every rank of the sender's actor sends as far as `from` does.
void Fabric::add_parts_of_messages(Shares& shares, Rank from, Rank to) const {
  const std::int64_t apart = index_of(to) - std::int64_t{index_of(from)};
  for (const NodeClass& node : narrow_nodes_) {
    const topologies::Node& shape = node_at(cluster_, node.first);
    const std::int64_t first = first_rank_of(cluster_, node.first);
    const auto here = [&](std::int64_t rank) { return rank >= first && rank < first + shape.gpus; };
    for (const int gpu : node.shape.order) {
      const std::int64_t rank = first + gpu;
      if (rank >= ranks_) {
        continue;
      }
      const Port own{Port::Kind::kGpu, gpu};
      const Port nic{Port::Kind::kNic, node.shape.nics[static_cast<std::size_t>(gpu)]};
      const std::uint32_t actor = grid_.actor_of(static_cast<Rank>(rank));
      const auto peer = static_cast<int>(rank + apart - first);
      if (actor == grid_.actor_of(from) && !here(rank + apart)) {
        add_crossings(shares, node, own, nic, 1.0);
      } else if (actor == grid_.actor_of(from) && !joined_by_links(shape, {gpu, peer})) {
        add_crossings(shares, node, own, {Port::Kind::kGpu, peer}, 1.0);
      }
      if (actor == grid_.actor_of(to) && !here(rank - apart)) {
        add_crossings(shares, node, nic, own, 1.0);
      }
    }
  }
}

}  // namespace trireme::sim
