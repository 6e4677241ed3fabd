#include "sim/link_sharing.h"

#include <algorithm>

#include "core/check.h"

namespace trireme::sim {
namespace {

constexpr std::uint32_t kOwnLimit = 0xffffffff;  // a flow held back by its rate_max
constexpr std::uint32_t kRemoved = 0xfffffffe;
// Rates that differ by less, relatively, are equal: rounding of sums over thousands of flows stays
// below this.
constexpr double kRounding = 1e-11;

// A min-heap on (level, kind, index): ties are resolved the same way in every run.
struct LaterCandidate {
  template <typename Candidate>
  bool operator()(const Candidate& a, const Candidate& b) const {
    if (a.level != b.level) {
      return a.level > b.level;
    }
    return a.is_flow != b.is_flow ? a.is_flow : a.index > b.index;
  }
};

}  // namespace

LinkIndex LinkSharing::add_link(double capacity) {
  TRIREME_CHECK(capacity >= 0);
  links_.emplace_back();
  links_.back().capacity = capacity;
  return LinkIndex{static_cast<std::uint32_t>(links_.size() - 1)};
}

void LinkSharing::set_capacity(LinkIndex link, double capacity) {
  TRIREME_CHECK(capacity >= 0);
  links_[index(link)].capacity = capacity;
  mark_dirty(index(link));
}

std::uint32_t LinkSharing::allocate_hops(std::uint32_t count) {
  if (count < free_hops_.size() && !free_hops_[count].empty()) {
    const std::uint32_t first = free_hops_[count].back();
    free_hops_[count].pop_back();
    return first;
  }
  const auto first = static_cast<std::uint32_t>(hops_.size());
  hops_.resize(hops_.size() + count);
  slots_.resize(slots_.size() + count);
  return first;
}

void LinkSharing::mark_dirty(std::uint32_t link) {
  if (!links_[link].dirty) {
    links_[link].dirty = true;
    dirty_links_.push_back(link);
  }
}

FlowIndex LinkSharing::add_flow(std::span<const LinkUse> uses, double rate_max) {
  TRIREME_CHECK(!uses.empty() || rate_max < kUnlimitedRate);
  std::uint32_t at = 0;
  if (free_flows_.empty()) {
    at = static_cast<std::uint32_t>(flows_.size());
    flows_.emplace_back();
  } else {
    at = free_flows_.back();
    free_flows_.pop_back();
  }
  const auto count = static_cast<std::uint32_t>(uses.size());
  Flow& flow = flows_[at];
  flow = Flow{.first_hop = allocate_hops(count), .hops = count, .rate_max = rate_max};
  for (std::uint32_t i = 0; i < count; ++i) {
    TRIREME_CHECK(uses[i].use > 0);
    const std::uint32_t hop = flow.first_hop + i;
    const std::uint32_t link = index(uses[i].link);
    hops_[hop] = uses[i];
    slots_[hop] = static_cast<std::uint32_t>(links_[link].crossings.size());
    links_[link].crossings.push_back({at, hop, uses[i].use});
    mark_dirty(link);
  }
  new_flows_.push_back(at);
  return FlowIndex{at};
}

void LinkSharing::remove_flow(FlowIndex removed) {
  const std::uint32_t at = index(removed);
  Flow& flow = flows_[at];
  TRIREME_CHECK(flow.bottleneck != kRemoved);
  for (std::uint32_t hop = flow.first_hop; hop < flow.first_hop + flow.hops; ++hop) {
    const std::uint32_t link = index(hops_[hop].link);
    std::vector<Crossing>& crossings = links_[link].crossings;
    crossings[slots_[hop]] = crossings.back();
    slots_[crossings[slots_[hop]].hop] = slots_[hop];
    crossings.pop_back();
    mark_dirty(link);
  }
  if (free_hops_.size() <= flow.hops) {
    free_hops_.resize(flow.hops + 1);
  }
  free_hops_[flow.hops].push_back(flow.first_hop);
  flow.bottleneck = kRemoved;
  free_flows_.push_back(at);
  if (!new_flows_.empty()) {
    std::erase(new_flows_, at);
  }
}

double LinkSharing::load(LinkIndex link) const {
  double sum = 0;
  for (const Crossing& crossing : links_[index(link)].crossings) {
    sum += crossing.use * flows_[crossing.flow].rate;
  }
  return sum;
}

std::span<const LinkUse> LinkSharing::uses(FlowIndex flow) const {
  return {hops_.data() + flows_[index(flow)].first_hop, flows_[index(flow)].hops};
}

// A new flow that is alone on all its links: the usual case of a ring. Its links need no further
// look.
bool LinkSharing::solve_alone(std::uint32_t at) {
  Flow& flow = flows_[at];
  double rate = flow.rate_max;
  std::uint32_t bottleneck = kOwnLimit;
  for (std::uint32_t hop = flow.first_hop; hop < flow.first_hop + flow.hops; ++hop) {
    const Link& link = links_[index(hops_[hop].link)];
    if (link.crossings.size() != 1) {
      return false;
    }
    if (link.capacity < rate * hops_[hop].use) {
      rate = link.capacity / hops_[hop].use;
      bottleneck = index(hops_[hop].link);
    }
  }
  for (std::uint32_t hop = flow.first_hop; hop < flow.first_hop + flow.hops; ++hop) {
    links_[index(hops_[hop].link)].dirty = false;
  }
  flow.rate = rate;
  flow.bottleneck = bottleneck;
  return true;
}

void LinkSharing::include(std::uint32_t at) {
  Flow& flow = flows_[at];
  if (flow.epoch != epoch_) {
    flow.epoch = epoch_;
    flow.old_rate = flow.rate;
    solving_.push_back(at);
  }
}

// The level at which this link would fill by itself, its flows from elsewhere no faster than now,
// tells which of its flows may change: those that it holds back, and those faster than its level.
void LinkSharing::include_from_dirty_link(std::uint32_t at) {
  const Link& link = links_[at];
  double use = 0;
  for (const Crossing& crossing : link.crossings) {
    use += crossing.use;
  }
  double level = use > 0 ? link.capacity / use : kUnlimitedRate;
  for (std::size_t slower = 0; level < kUnlimitedRate;) {
    double residual = link.capacity;
    double active_use = 0;
    std::size_t slower_now = 0;
    for (const Crossing& crossing : link.crossings) {
      const Flow& flow = flows_[crossing.flow];
      const bool free = flow.bottleneck == at || flow.epoch == epoch_;
      if (!free && flow.rate <= level) {
        residual -= crossing.use * flow.rate;
        ++slower_now;
      } else {
        active_use += crossing.use;
      }
    }
    if (slower_now <=
        slower) {  // the level only rises, so what was slower stays so; "<" is rounding
      break;
    }
    slower = slower_now;
    level = active_use > 0 ? std::max(residual, 0.0) / active_use : kUnlimitedRate;
  }
  for (const Crossing& crossing : link.crossings) {
    const Flow& flow = flows_[crossing.flow];
    if (flow.bottleneck == at || flow.rate > level * (1 + kRounding)) {
      include(crossing.flow);
    }
  }
}

// What the flows being solved may take of each link they cross: its capacity less the flows that
// keep their rate.
void LinkSharing::prepare_links() {
  for (const std::uint32_t at : solving_) {
    Flow& flow = flows_[at];
    flow.frozen = false;
    for (std::uint32_t hop = flow.first_hop; hop < flow.first_hop + flow.hops; ++hop) {
      const std::uint32_t link = index(hops_[hop].link);
      if (links_[link].epoch != epoch_) {
        links_[link].epoch = epoch_;
        touched_links_.push_back(link);
      }
    }
    if (flow.rate_max < kUnlimitedRate) {
      heap_.push_back({flow.rate_max, at, true});
    }
  }
  for (const std::uint32_t at : touched_links_) {
    Link& link = links_[at];
    link.residual = link.capacity;
    link.active_use = 0;
    link.active = 0;
    link.bottleneck = false;
    for (const Crossing& crossing : link.crossings) {
      const Flow& flow = flows_[crossing.flow];
      if (flow.epoch == epoch_) {
        link.active_use += crossing.use;
        ++link.active;
      } else {
        link.residual -= crossing.use * flow.rate;
      }
    }
    link.residual = std::max(link.residual, 0.0);
    heap_.push_back({link.residual / link.active_use, at, false});
  }
}

void LinkSharing::freeze(std::uint32_t at, double level, std::uint32_t bottleneck) {
  Flow& flow = flows_[at];
  flow.frozen = true;
  flow.rate = level;
  flow.bottleneck = bottleneck;
  for (std::uint32_t hop = flow.first_hop; hop < flow.first_hop + flow.hops; ++hop) {
    Link& link = links_[index(hops_[hop].link)];
    link.residual = std::max(link.residual - hops_[hop].use * level, 0.0);
    link.active_use -= hops_[hop].use;
    --link.active;
  }
}

// Progressive filling: all flows grow together; whatever fills first, a link or a flow's own limit,
// stops its flows. A link's level only rises as others of its flows stop, so a stale entry of the
// heap is pushed again when it comes up. Most links never fill: with the last flow it is over.
void LinkSharing::fill() {
  std::make_heap(heap_.begin(), heap_.end(), LaterCandidate{});
  std::size_t growing = solving_.size();
  while (growing > 0 && !heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), LaterCandidate{});
    const Candidate candidate = heap_.back();
    heap_.pop_back();
    if (candidate.is_flow) {
      if (!flows_[candidate.index].frozen) {
        freeze(candidate.index, candidate.level, kOwnLimit);
        --growing;
      }
      continue;
    }
    Link& link = links_[candidate.index];
    if (link.active == 0) {
      continue;
    }
    const double level = link.residual / link.active_use;
    if (level > candidate.level) {
      heap_.push_back({level, candidate.index, false});
      std::push_heap(heap_.begin(), heap_.end(), LaterCandidate{});
      continue;
    }
    link.bottleneck = true;
    link.level = level;
    for (std::size_t i = 0; i < link.crossings.size() && link.active > 0; ++i) {
      const std::uint32_t at = link.crossings[i].flow;
      if (flows_[at].epoch == epoch_ && !flows_[at].frozen) {
        freeze(at, level, candidate.index);
        --growing;
      }
    }
  }
  heap_.clear();
}

// Adds the flows that kept their rate but whose bottleneck condition no longer holds. True when
// there are any.
bool LinkSharing::include_broken() {
  const std::size_t before = solving_.size();
  for (const std::uint32_t at : touched_links_) {
    const Link& link = links_[at];
    double used = 0;
    double rate_largest = 0;
    for (const Crossing& crossing : link.crossings) {
      used += crossing.use * flows_[crossing.flow].rate;
      rate_largest = std::max(rate_largest, flows_[crossing.flow].rate);
    }
    const bool full = used >= link.capacity * (1 - kRounding);
    for (const Crossing& crossing : link.crossings) {
      const Flow& flow = flows_[crossing.flow];
      if (flow.epoch == epoch_) {
        continue;
      }
      const bool too_fast = link.bottleneck && flow.rate > link.level * (1 + kRounding);
      const bool can_grow =
          flow.bottleneck == at && (!full || flow.rate < rate_largest * (1 - kRounding));
      if (too_fast || can_grow) {
        include(crossing.flow);
      }
    }
  }
  return solving_.size() > before;
}

std::span<const FlowIndex> LinkSharing::solve() {
  changed_.clear();
  if (dirty_links_.empty() && new_flows_.empty()) {
    return changed_;
  }
  ++epoch_;
  solving_.clear();
  touched_links_.clear();
  for (const std::uint32_t at : new_flows_) {
    if (solve_alone(at)) {
      changed_.push_back(FlowIndex{at});
    } else {
      include(at);
    }
  }
  solved_flows_ += new_flows_.size();
  new_flows_.clear();
  for (const std::uint32_t at : dirty_links_) {
    if (links_[at].dirty) {
      links_[at].dirty = false;
      include_from_dirty_link(at);
    }
  }
  dirty_links_.clear();
  while (!solving_.empty()) {
    prepare_links();
    fill();
    solved_flows_ += solving_.size();
    if (!include_broken()) {
      break;
    }
  }
  for (const std::uint32_t at : solving_) {
    if (flows_[at].rate != flows_[at].old_rate) {
      changed_.push_back(FlowIndex{at});
    }
  }
  return changed_;
}

}  // namespace trireme::sim
