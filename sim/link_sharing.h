// Who gets how much of a shared link. Flows cross links; each flow's rate is max-min fair: it is as
// large as its own limit allows, or it crosses a full link (its bottleneck) on which no flow is
// faster. In symbols, with rate r_f, own limit m_f and use u_fl (what one unit of the flow's rate
// takes of link l; 1 for a plain message):
//     sum over f of u_fl r_f <= capacity_l,   r_f <= m_f,
//     and for each f:  r_f = m_f, or some l with u_fl > 0 is full and r_f = max over g on l of r_g.
// This allocation is unique, and progressive filling finds it (Bertsekas and Gallager, Data
// Networks, section 6.5.2).
//
// When flows come and go, only flows whose bottleneck condition can break are solved again: the
// search starts at the links that changed and grows while a condition is broken, so what is not
// connected to the change, or lies below its rates, is not looked at.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace trireme::sim {

enum class LinkIndex : std::uint32_t {};
enum class FlowIndex : std::uint32_t {};  // reused after remove_flow

struct LinkUse {
  LinkIndex link{};
  double use = 1.0;  // of the link for each unit of the flow's rate; > 0
};

constexpr double kUnlimitedRate = std::numeric_limits<double>::infinity();

class LinkSharing {
 public:
  // Capacity in any unit a second (bytes/s for messages); >= 0.
  LinkIndex add_link(double capacity);
  void set_capacity(LinkIndex link, double capacity);
  [[nodiscard]] double capacity(LinkIndex link) const { return links_[index(link)].capacity; }
  [[nodiscard]] std::uint32_t link_count() const {
    return static_cast<std::uint32_t>(links_.size());
  }

  // Requires: a link is named at most once; `uses` not empty unless rate_max is finite.
  FlowIndex add_flow(std::span<const LinkUse> uses, double rate_max = kUnlimitedRate);
  void remove_flow(FlowIndex flow);

  // Makes the rates fair after any number of changes. Returns the flows whose rate changed; valid
  // until the next call.
  std::span<const FlowIndex> solve();

  // Of the last solve(); 0 for a flow added since.
  [[nodiscard]] double rate(FlowIndex flow) const { return flows_[index(flow)].rate; }
  [[nodiscard]] double load(LinkIndex link) const;  // sum of use * rate
  [[nodiscard]] std::span<const LinkUse> uses(FlowIndex flow) const;
  [[nodiscard]] std::uint64_t solved_flows() const { return solved_flows_; }  // work done so far

 private:
  struct Crossing {  // of a flow and a link, in the link's list
    std::uint32_t flow = 0;
    std::uint32_t hop = 0;  // index into hops_ of this crossing
    double use = 0;
  };
  struct Link {
    double capacity = 0;
    std::vector<Crossing> crossings;
    // Scratch of one solve.
    double residual = 0, active_use = 0, level = 0;
    std::uint32_t active = 0;
    std::uint32_t epoch = 0;
    bool dirty = false, bottleneck = false;
  };
  struct Flow {
    std::uint32_t first_hop = 0, hops = 0;
    double rate = 0, rate_max = 0, old_rate = 0;
    std::uint32_t bottleneck = 0;
    std::uint32_t epoch = 0;  // == epoch_: being solved
    bool frozen = false;
  };
  struct Candidate {  // what fills up next: a link, or a flow's own limit
    double level = 0;
    std::uint32_t index = 0;
    bool is_flow = false;
  };

  static constexpr std::uint32_t index(LinkIndex link) { return static_cast<std::uint32_t>(link); }
  static constexpr std::uint32_t index(FlowIndex flow) { return static_cast<std::uint32_t>(flow); }

  std::uint32_t allocate_hops(std::uint32_t count);
  void mark_dirty(std::uint32_t link);
  bool solve_alone(std::uint32_t flow);
  void include(std::uint32_t flow);
  void include_from_dirty_link(std::uint32_t link);
  void prepare_links();
  void freeze(std::uint32_t flow, double level, std::uint32_t bottleneck);
  void fill();
  bool include_broken();

  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<LinkUse> hops_;
  std::vector<std::uint32_t> slots_;                   // by hop: where it stands in its link's list
  std::vector<std::vector<std::uint32_t>> free_hops_;  // by length
  std::vector<std::uint32_t> free_flows_;
  std::vector<std::uint32_t> dirty_links_, new_flows_, solving_, touched_links_;
  std::vector<Candidate> heap_;
  std::vector<FlowIndex> changed_;
  std::uint32_t epoch_ = 0;
  std::uint64_t solved_flows_ = 0;
};

}  // namespace trireme::sim
