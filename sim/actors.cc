#include "sim/actors.h"

#include <algorithm>
#include <bit>
#include <map>

#include "core/check.h"
#include "core/error.h"
#include "core/random.h"
#include "topologies/node_groups.h"
#include "topologies/node_parts.h"

namespace trireme::sim {

ActorGrid::ActorGrid(const StepProgram& program, const topologies::Cluster& cluster,
                     const Faults& faults, bool unfold)
    : cluster_(cluster), faults_(faults) {
  TRIREME_CHECK(program.ranks >= 1);
  stage_stride_ = program.stages.stride;
  stages_ = program.stages.degree;
  check(program);
  const bool on_a_grid = add_digits(program);
  cut(program, unfold || !on_a_grid || faults.jitter > 0 || faults.rank_spread > 0);
}

void ActorGrid::check(const StepProgram& program) const {
  for (const Straggler& straggler : faults_.stragglers) {
    if (!(straggler.factor > 0)) {
      throw Error("straggler", "its factor must be above 0, for example 1.2x");
    }
    if (straggler.rank && index_of(*straggler.rank) >= program.ranks) {
      throw Error("straggler", "there is no rank " + std::to_string(index_of(*straggler.rank)) +
                                   "; ranks are 0 to " + std::to_string(program.ranks - 1));
    }
    if (straggler.stage && index_of(*straggler.stage) >= stages_) {
      throw Error("straggler", "there is no stage " + std::to_string(index_of(*straggler.stage)) +
                                   "; stages are 0 to " + std::to_string(stages_ - 1));
    }
  }
  const std::int64_t nodes = node_of_rank(cluster_, program.ranks - 1) + 1;
  for (const SlowLink& link : faults_.slow_links) {
    if (!(link.factor >= 0)) {
      throw Error("slow link", "its factor must be 0 or more, for example 0.5x");
    }
    if (link.node && (*link.node < 0 || *link.node >= nodes)) {
      throw Error("slow link", "there is no node " + std::to_string(*link.node) +
                                   "; nodes are 0 to " + std::to_string(nodes - 1));
    }
    const int nics = node_at(cluster_, link.node.value_or(0)).nics;
    if (link.nic && (*link.nic < 0 || *link.nic >= nics)) {
      throw Error("slow link", "there is no NIC " + std::to_string(*link.nic) + "; a node has " +
                                   std::to_string(nics));
    }
  }
}

RankFault ActorGrid::fault_of(Rank rank) const {
  RankFault fault;
  for (const Straggler& straggler : faults_.stragglers) {
    const bool hit = straggler.rank ? *straggler.rank == rank
                                    : straggler.stage && index_of(rank) / stage_stride_ % stages_ ==
                                                             index_of(*straggler.stage);
    fault.compute *= hit ? straggler.factor : 1.0;
  }
  for (const SlowLink& link : faults_.slow_links) {
    const std::int64_t node = node_of_rank(cluster_, index_of(rank));
    if (link.node && *link.node != node) {
      continue;
    }
    if (link.kind == SlowLink::Kind::kFastFabric) {
      fault.fabric *= link.factor;
    } else if (!link.nic || *link.nic == nic_of(node_at(cluster_, node),
                                                static_cast<int>(index_of(rank) -
                                                                 first_rank_of(cluster_, node)))) {
      fault.nic *= link.factor;
    }
  }
  return fault;
}

// The grid's axes, as fine as any group needs them: cut the ranks' numbers where some axis begins
// or ends.
bool ActorGrid::add_digits(const StepProgram& program) {
  std::vector<std::int64_t> cuts = {1, program.ranks};
  const auto add = [&](const GroupAxis& axis) {
    if (axis.degree * axis.stride ==
        axis.period) {  // the tied first and last stage cut nothing else
      cuts.push_back(axis.stride);
      cuts.push_back(axis.stride * axis.degree);
    }
  };
  add(program.stages);
  for (const Group& group : program.groups) {
    std::for_each(group.axes.begin(), group.axes.end(), add);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  bool nested = true;
  for (std::size_t i = 1; i < cuts.size(); ++i) {
    nested = nested && cuts[i] % cuts[i - 1] == 0;
  }
  if (!nested) {  // no common grid: one axis of all ranks, which only unfolds
    cuts = {1, program.ranks};
  }
  for (std::size_t i = 1; i < cuts.size(); ++i) {
    digits_.push_back({.stride = cuts[i - 1],
                       .radix = cuts[i] / cuts[i - 1],
                       .cell_of = {},
                       .first = {},
                       .count = {}});
  }
  if (digits_.empty()) {
    digits_.push_back({.stride = 1, .radix = 1, .cell_of = {}, .first = {}, .count = {}});
  }
  return nested;
}

// Two coordinates of an axis are alike when swapping them maps the faults onto themselves: their
// slices of faulty ranks have equal contents, told by a hash that does not depend on the order.
void ActorGrid::cut(const StepProgram& program, bool unfold) {
  std::vector<std::vector<std::uint64_t>> slices;
  for (const Digit& digit : digits_) {
    slices.emplace_back(static_cast<std::size_t>(digit.radix), 0);
  }
  const bool any_fault = !faults_.stragglers.empty() || !faults_.slow_links.empty();
  for (std::int64_t rank = 0; any_fault && !unfold && rank < program.ranks; ++rank) {
    const RankFault fault = fault_of(static_cast<Rank>(rank));
    if (fault == RankFault{}) {
      continue;
    }
    const double parts[3] = {fault.compute, fault.nic, fault.fabric};
    std::uint64_t what = 0;
    for (const double part : parts) {
      what = random_bits(what ^ std::bit_cast<std::uint64_t>(part), 0);
    }
    for (std::size_t d = 0; d < digits_.size(); ++d) {
      const std::int64_t coordinate = rank / digits_[d].stride % digits_[d].radix;
      const auto rest = static_cast<std::uint64_t>(rank - coordinate * digits_[d].stride);
      slices[d][static_cast<std::size_t>(coordinate)] += mixed_bits(what ^ mixed_bits(rest + 1));
    }
  }
  std::int64_t total = 1;
  for (std::size_t d = 0; d < digits_.size(); ++d) {
    Digit& digit = digits_[d];
    const bool of_stages =
        stages_ > 1 && digit.stride >= stage_stride_ && digit.stride < stage_stride_ * stages_;
    std::map<std::uint64_t, std::uint32_t> cells;
    for (std::int64_t c = 0; c < digit.radix; ++c) {
      const std::uint64_t key = unfold || of_stages ? static_cast<std::uint64_t>(c)
                                                    : slices[d][static_cast<std::size_t>(c)];
      const auto [found, fresh] =
          cells.emplace(key, static_cast<std::uint32_t>(digit.first.size()));
      if (fresh) {
        digit.first.push_back(c);
        digit.count.push_back(0);
      }
      ++digit.count[found->second];
      digit.cell_of.push_back(found->second);
    }
    total *= static_cast<std::int64_t>(digit.first.size());
  }
  for (std::int64_t index = 0; index < total; ++index) {
    Actor actor;
    std::int64_t rest = index;
    std::int64_t rank = 0;
    for (const Digit& digit : digits_) {
      const auto cell =
          static_cast<std::size_t>(rest % static_cast<std::int64_t>(digit.first.size()));
      rest /= static_cast<std::int64_t>(digit.first.size());
      rank += digit.first[cell] * digit.stride;
      actor.ranks *= digit.count[cell];
    }
    actor.rank = static_cast<Rank>(rank);
    actor.role = role_of(program, actor.rank);
    actor.compute_factor = fault_of(actor.rank).compute;
    actors_.push_back(actor);
  }
}

std::uint32_t ActorGrid::actor_of(Rank rank) const {
  std::uint32_t index = 0;
  std::uint32_t weight = 1;
  for (const Digit& digit : digits_) {
    index += digit.cell_of[static_cast<std::size_t>(index_of(rank) / digit.stride % digit.radix)] *
             weight;
    weight *= static_cast<std::uint32_t>(digit.first.size());
  }
  return index;
}

}  // namespace trireme::sim
