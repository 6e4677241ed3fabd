#include "sim/fabric.h"

#include <algorithm>
#include <tuple>

#include <fmt/core.h>

#include "core/check.h"
#include "topologies/node_groups.h"
#include "topologies/node_layout.h"

namespace trireme::sim {
namespace {

// The adapters of one link here: one that GPUs share or, with more adapters than GPUs, the `nic`th
// GPU's own ones together.
BytesPerSecond adapters_rate(const topologies::Node& node, int nic) {
  if (node.nics <= node.gpus) {
    return adapter_rate(node, nic);
  }
  BytesPerSecond all;
  for (int i = 0; i < node.nics; ++i) {
    all += adapter_rate(node, i) * (std::int64_t{i} * node.gpus / node.nics == nic ? 1.0 : 0.0);
  }
  return all;
}

}  // namespace

Fabric::Fabric(const StepProgram& program, const topologies::Cluster& cluster,
               const ActorGrid& grid, FlowSet& flows)
    : program_(program),
      cluster_(cluster),
      grid_(grid),
      ranks_(program.ranks),
      tiers_(topologies::network_tiers(cluster)),
      of_actor_(grid.actors().size()) {
  for (ActorLinks& actor : of_actor_) {
    actor.tiers.resize(tiers_.size());
  }
  TRIREME_CHECK(cluster.node.gpus >= 1);
  const std::int64_t nodes = node_of_rank(cluster, ranks_ - 1) + 1;
  // Alike nodes that hold the same actors, with the same faults, in the same places are one class.
  using Place = std::tuple<std::uint32_t, double, double>;  // actor, its NIC and its fast fabric
  std::map<std::pair<const topologies::Node*, std::vector<Place>>, std::uint32_t> classes;
  std::vector<std::int64_t> first_of;
  std::vector<std::int64_t> count_of;
  std::vector<std::uint32_t> class_of_node;
  for (std::int64_t node = 0; node < nodes; ++node) {
    std::vector<Place> what;
    const topologies::Node& shape = node_at(cluster, node);
    const std::int64_t first = first_rank_of(cluster, node);
    for (std::int64_t rank = first; rank < std::min(ranks_, first + shape.gpus); ++rank) {
      const RankFault fault = grid.fault_of(static_cast<Rank>(rank));
      what.emplace_back(grid.actor_of(static_cast<Rank>(rank)), fault.nic, fault.fabric);
    }
    const auto [found, fresh] = classes.emplace(std::pair(&shape, std::move(what)),
                                                static_cast<std::uint32_t>(first_of.size()));
    if (fresh) {
      first_of.push_back(node);
      count_of.push_back(0);
    }
    ++count_of[found->second];
    class_of_node.push_back(found->second);
  }
  for (std::size_t c = 0; c < first_of.size(); ++c) {
    add_node_class(first_of[c], count_of[c], grid, flows);
  }
  for (std::size_t tier = 0; tier < tiers_.size() && cluster.node.nics > 0; ++tier) {
    add_tier(tier, class_of_node, grid, flows);
  }
}

Fabric::Duplex Fabric::add_duplex(const std::string& name, BytesPerSecond sound, double factor,
                                  std::int64_t count, FlowSet& flows) {
  const BytesPerSecond capacity = sound * factor;
  const Duplex duplex{flows.add_link(capacity), flows.add_link(capacity)};
  links_.push_back({name + " out", capacity, sound, count});
  links_.push_back({name + " in", capacity, sound, count});
  return duplex;
}

void Fabric::add_node_class(std::int64_t node, std::int64_t count, const ActorGrid& grid,
                            FlowSet& flows) {
  const topologies::Node& shape = node_at(cluster_, node);
  const std::int64_t first = first_rank_of(cluster_, node);
  const auto present = static_cast<int>(std::min<std::int64_t>(shape.gpus, ranks_ - first));
  const bool nvlink = shape.nvlink_domain > 1;
  std::map<std::uint32_t, GpusHere> gpus_of;           // of each actor
  std::map<int, std::map<std::uint32_t, int>> on_nic;  // NIC: actor: ranks
  for (int local = 0; local < present; ++local) {
    const std::uint32_t actor = grid.actor_of(static_cast<Rank>(first + local));
    GpusHere& here = gpus_of[actor];
    const BytesPerSecond own = topologies::pcie_carries(gpu_pcie(shape, local));
    here.pcie = here.count == 0 ? own : std::min(here.pcie, own);
    ++here.count;
    // With more NICs than GPUs each GPU has several of its own: one link of their sum.
    ++on_nic[shape.nics > shape.gpus ? local : nic_of(shape, local)][actor];
  }
  for (const auto& [actor, gpus] : gpus_of) {
    const RankFault fault = grid.fault_of(grid.actors()[actor].rank);
    const BytesPerSecond capacity = nvlink ? shape.nvlink_per_gpu : gpus.pcie;
    const std::string name = fmt::format("{} of rank {}", nvlink ? "NVLink" : "PCIe",
                                         index_of(grid.actors()[actor].rank));
    of_actor_[actor].fast.push_back(
        {add_duplex(name, capacity, fault.fabric, gpus.count * count, flows), 1.0});
  }
  add_parts(node, count, flows);
  if (shape.nics <= 0) {
    return;
  }
  using Adapter = std::tuple<std::map<std::uint32_t, int>, double, double>;  // who, fault, rate
  std::map<Adapter, std::int64_t> alike;
  for (const auto& [nic, actors] : on_nic) {
    const RankFault fault = grid.fault_of(grid.actors()[actors.begin()->first].rank);
    ++alike[{actors, fault.nic, adapters_rate(shape, nic).value}];
  }
  add_own_pcie(gpus_of, shape, count, flows);
  for (const auto& [what, nics] : alike) {
    const auto& [actors, fault, rate] = what;
    const std::string name =
        fmt::format("NIC of rank {}", index_of(grid.actors()[actors.begin()->first].rank));
    const Duplex link = add_duplex(name, BytesPerSecond(rate), fault, nics * count, flows);
    for (const auto& [actor, ranks] : actors) {
      of_actor_[actor].nic.push_back({link, static_cast<double>(ranks)});
    }
  }
}

void Fabric::add_parts(std::int64_t node, std::int64_t count, FlowSet& flows) {
  NodeClass parts{node, topologies::node_parts(cluster_, node), {}};
  for (const topologies::NodePart& part : parts.shape.parts) {
    const std::string name = fmt::format("link out of {} of node {}", part.name, node);
    parts.links.push_back(add_duplex(name, part.out, 1.0, count, flows));
  }
  if (!parts.links.empty()) {
    narrow_nodes_.push_back(std::move(parts));
  }
}

// What a GPU sends over its adapters crosses its own PCIe link.
void Fabric::add_own_pcie(const std::map<std::uint32_t, GpusHere>& gpus_of,
                          const topologies::Node& shape, std::int64_t count, FlowSet& flows) {
  if (shape.pcie_per_gpu.value <= 0) {
    return;
  }
  const BytesPerSecond out =
      shape.nic * std::max(1.0, static_cast<double>(shape.nics) / shape.gpus);
  for (const auto& [actor, gpus] : gpus_of) {
    ActorLinks& own = of_actor_[actor];
    if (shape.nvlink_domain <= 1) {
      own.pcie.push_back(own.fast.back());
    } else if (out > gpus.pcie) {
      const std::string name = fmt::format("PCIe of rank {}", index_of(grid_.actors()[actor].rank));
      own.pcie.push_back({add_duplex(name, gpus.pcie, 1.0, gpus.count * count, flows), 1.0});
    }
  }
}

void Fabric::add_tier(std::size_t tier, const std::vector<std::uint32_t>& class_of_node,
                      const ActorGrid& grid, FlowSet& flows) {
  const auto nodes = static_cast<std::int64_t>(class_of_node.size());
  using Unit = std::pair<std::int64_t, std::map<std::uint32_t, std::int64_t>>;  // size, what
  std::map<Unit, std::pair<std::int64_t, std::int64_t>> classes;                // first, count
  // Units of unlike size have unlike uplinks, even where the same ranks are in use below them.
  std::int64_t size = 0;
  for (std::int64_t first = 0; first < nodes; first += size) {
    size = part_size(cluster_, tier, part_of_node(cluster_, tier, first));
    Unit unit{size, {}};
    for (std::int64_t node = first; node < std::min(nodes, first + size); ++node) {
      ++unit.second[class_of_node[static_cast<std::size_t>(node)]];
    }
    ++classes.emplace(std::move(unit), std::pair{first, std::int64_t{0}}).first->second.second;
  }
  for (const auto& [what, unit] : classes) {
    const BytesPerSecond capacity = uplinks_from(cluster_, tier, unit.first);
    const Duplex link =
        add_duplex(fmt::format("uplinks of the {} of node {}", tiers_[tier].name, unit.first),
                   capacity, 1.0, unit.second, flows);
    std::map<std::uint32_t, std::int64_t> ranks_of;
    const std::int64_t last = std::min(ranks_, first_rank_of(cluster_, unit.first + what.first));
    for (std::int64_t rank = first_rank_of(cluster_, unit.first); rank < last; ++rank) {
      ++ranks_of[grid.actor_of(static_cast<Rank>(rank))];
    }
    for (const auto& [actor, ranks] : ranks_of) {
      of_actor_[actor].tiers[tier].push_back({link, static_cast<double>(ranks)});
    }
  }
}

std::int64_t Fabric::node_of(Rank rank) const {
  return node_of_rank(cluster_, index_of(rank));
}
std::int64_t Fabric::part_of(std::size_t tier, Rank rank) const {
  return part_of_node(cluster_, tier, node_of(rank));
}

// In a torus, links between two neighbours of a ring, on average; elsewhere one adapter's.
double Fabric::ring_hops(const std::vector<Rank>& members) const {
  if (cluster_.network.torus.empty()) {
    return 1.0;
  }
  double hops = 0;
  double between = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const int one = topologies::torus_hops(cluster_.network, node_of(members[i]),
                                           node_of(members[(i + 1) % members.size()]));
    hops += one;
    between += one > 0 ? 1 : 0;
  }
  return between > 0 ? hops / between : 1.0;
}

// By actor: how many members the first of its ranks among them has around it.
std::map<std::uint32_t, Fabric::Neighbourhood> Fabric::neighbourhoods(
    const std::vector<Rank>& members) const {
  std::map<std::int64_t, double> in_node;
  std::vector<std::map<std::int64_t, double>> in_part(tiers_.size());
  for (const Rank member : members) {
    ++in_node[node_of(member)];
    for (std::size_t tier = 0; tier < tiers_.size(); ++tier) {
      ++in_part[tier][part_of(tier, member)];
    }
  }
  std::map<std::uint32_t, Neighbourhood> result;
  for (const Rank member : members) {
    const auto [found, fresh] = result.emplace(grid_.actor_of(member), Neighbourhood{});
    if (!fresh) {
      continue;
    }
    Neighbourhood& around = found->second;
    around.in_node = in_node[node_of(member)];
    around.many_nodes = in_node.size() > 1;
    for (std::size_t tier = 0; tier < tiers_.size(); ++tier) {
      around.in_part.push_back(in_part[tier][part_of(tier, member)]);
      around.many_parts.push_back(in_part[tier].size() > 1);
    }
  }
  return result;
}

void Fabric::add(Shares& shares, const std::vector<Attachment>& where, double share, bool out,
                 bool in) {
  if (share <= 0) {
    return;
  }
  for (const Attachment& attachment : where) {
    if (out) {
      shares[attachment.link.out] += share * attachment.ranks;
    }
    if (in) {
      shares[attachment.link.in] += share * attachment.ranks;
    }
  }
}

std::vector<Load> Fabric::listed(const Shares& shares) {
  std::vector<Load> loads;
  for (const auto& [link, share] : shares) {
    loads.push_back({link, share});
  }
  return loads;
}

std::vector<Load> Fabric::ring_loads(GroupId group, Rank rank) const {
  Shares shares;
  const std::vector<Rank> members = members_of(program_, group, rank);
  const double hops = ring_hops(members);
  for (const auto& [actor, around] : neighbourhoods(members)) {
    const double leaving = around.many_nodes ? 1.0 / around.in_node : 0.0;
    add(shares, of_actor_[actor].fast, 1.0 - leaving, true, true);
    add(shares, of_actor_[actor].pcie, leaving, true, true);
    add(shares, of_actor_[actor].nic, leaving * hops, true, true);
    for (std::size_t tier = 0; tier < tiers_.size(); ++tier) {
      const double out = around.many_parts[tier] ? 1.0 / around.in_part[tier] : 0.0;
      add(shares, of_actor_[actor].tiers[tier], out * tiers_[tier].detour, true, true);
    }
  }
  add_parts_of_rings(shares, group, members);
  return listed(shares);
}

std::vector<Load> Fabric::all_to_all_loads(GroupId group, Rank rank) const {
  Shares shares;
  const std::vector<Rank> members = members_of(program_, group, rank);
  const double others = static_cast<double>(members.size()) - 1;
  const double hops = std::max(1.0, topologies::mean_torus_hops(cluster_.network));
  for (const auto& [actor, around] : neighbourhoods(members)) {
    add(shares, of_actor_[actor].fast, (around.in_node - 1) / others, true, true);
    const double leaving = (others + 1 - around.in_node) / others;
    add(shares, of_actor_[actor].pcie, leaving, true, true);
    add(shares, of_actor_[actor].nic, hops * leaving, true, true);
    for (std::size_t tier = 0; tier < tiers_.size(); ++tier) {
      add(shares, of_actor_[actor].tiers[tier], (others + 1 - around.in_part[tier]) / others, true,
          true);
    }
  }
  add_parts_of_exchange(shares, group, members);
  return listed(shares);
}

std::vector<Load> Fabric::message_loads(Rank from, Rank to) const {
  Shares shares;
  const ActorLinks& sender = of_actor_[grid_.actor_of(from)];
  const ActorLinks& receiver = of_actor_[grid_.actor_of(to)];
  add_parts_of_messages(shares, from, to);
  if (node_of(from) == node_of(to)) {
    add(shares, sender.fast, 1.0, true, false);
    add(shares, receiver.fast, 1.0, false, true);
    return listed(shares);
  }
  const double hops = ring_hops({from, to});
  add(shares, sender.pcie, 1.0, true, false);
  add(shares, receiver.pcie, 1.0, false, true);
  add(shares, sender.nic, hops, true, false);
  add(shares, receiver.nic, hops, false, true);
  for (std::size_t tier = 0; tier < tiers_.size(); ++tier) {
    if (part_of(tier, from) != part_of(tier, to)) {
      add(shares, sender.tiers[tier], 1.0, true, false);
      add(shares, receiver.tiers[tier], 1.0, false, true);
    }
  }
  return listed(shares);
}

}  // namespace trireme::sim
