// The walk's rules for gathers and reductions (planner/lower/lower.h) on a stage whose units are
// all alike: what compute waits for them, pass by pass. A fold: a few units and micro-batches are
// walked, those between repeat the last.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/cost/unit_schedule.h"

namespace trireme::planner {

// Seconds of one unit's visits and of what they ask of the other streams.
struct UnitSeconds {
  double forward = 0, backward = 0;  // compute
  double before_gradient = 0;        // of backward: until its gradients need memory
  double gather = 0, gather_copy = 0;
  double reduce = 0, reduce_copy = 0;
  double replicate = 0;  // of the reduced sum over copies, after the last micro-batch
  friend bool operator==(const UnitSeconds&, const UnitSeconds&) = default;
};

struct UnitStage {
  UnitSeconds embedding, layers, head;
  int units = 1;   // of layers, of one chunk
  int frozen = 0;  // of them, the first: no backward goes through them
  bool frozen_embedding = false;
  bool has_embedding = false, has_head = false;
  bool tied = false;       // the head's weights are the embedding's
  bool ends_stay = false;  // embedding and head are gathered once
  bool gathers = false;    // units are gathered when they are needed
  bool reshards = false;   // and again in backward
  bool overlaps = true;    // gathers run beside compute
  bool one_link = false;   // gathers and reductions take turns on it
  bool one_input = false;  // reductions have an input of their own, one at a time
  int ahead = 1;           // units gathered before they are needed
  double slowdown = 0;     // share by which compute beside a collective gets longer
  friend bool operator==(const UnitStage&, const UnitStage&) = default;
};

// What of a stage decides the order of its visits.
UnitShape unit_shape(const UnitStage& stage);

struct UnitWalk {
  std::array<double, kMostPasses> took{};  // seconds of each pass
  double compute_end = 0;
  double end = 0;  // of everything
};

// Requires: `schedule` is list_visits(unit_shape(stage), …).
UnitWalk walk_units(const UnitStage& stage, const UnitSchedule& schedule);

// Walks that were asked before: layouts that differ in what no unit sees have them in common, and
// most follow each other. Bounded: a later walk takes the place of an earlier one.
class KnownWalks {
 public:
  // `passes` names what the schedule lists: the same number, the same passes.
  const UnitWalk& walk(const UnitStage& stage, std::uint32_t passes, const UnitSchedule& schedule);

 private:
  struct Known {
    bool used = false;
    std::uint32_t passes = 0;
    UnitStage stage;
    UnitWalk walk;
  };
  std::vector<Known> known_;
};

}  // namespace trireme::planner
