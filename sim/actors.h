// Ranks that do the same at the same time are simulated once, as one actor. Without faults an actor
// is a role; a fault splits off no more than what it makes unlike: the ranks' grid is cut, axis by
// axis, into cells of coordinates that the faults do not tell apart, and an actor is one cell of
// every axis.
#pragma once

#include <cstdint>
#include <vector>

#include "core/program.h"
#include "sim/faults.h"
#include "topologies/cluster.h"

namespace trireme::sim {

enum class ActorIndex : std::uint32_t {};

struct Actor {
  Rank rank{};  // its first rank, which stands for all
  RoleIndex role{};
  std::int64_t ranks = 1;  // how many it stands for
  double compute_factor = 1.0;
};

// What a fault says of one rank.
struct RankFault {
  double compute = 1.0, nic = 1.0, fabric = 1.0;
  friend bool operator==(const RankFault&, const RankFault&) = default;
};

class ActorGrid {
 public:
  // Throws Error when a fault names a rank, stage, node or NIC that does not exist. `unfold`: an
  // actor for every rank.
  ActorGrid(const StepProgram& program, const topologies::Cluster& cluster, const Faults& faults,
            bool unfold);

  [[nodiscard]] const std::vector<Actor>& actors() const { return actors_; }
  [[nodiscard]] std::uint32_t actor_of(Rank rank) const;
  [[nodiscard]] RankFault fault_of(Rank rank) const;

 private:
  struct Digit {
    std::int64_t stride = 1, radix = 1;
    std::vector<std::uint32_t> cell_of;      // by coordinate
    std::vector<std::int64_t> first, count;  // by cell: its first coordinate, how many
  };

  void check(const StepProgram& program) const;
  bool add_digits(const StepProgram& program);  // false: the groups have no common grid
  void cut(const StepProgram& program, bool unfold);

  const topologies::Cluster& cluster_;
  const Faults& faults_;
  std::int64_t stage_stride_ = 1, stages_ = 1;
  std::vector<Digit> digits_;
  std::vector<Actor> actors_;
};

}  // namespace trireme::sim
