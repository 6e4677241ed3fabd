// The order in which passes visit a stage's units, and what each visit asks of the other streams:
// the same for all stages of a shape, whatever their units take.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trireme::planner {

// Through one chunk.
struct UnitPass {
  bool forward = true;
  bool first = false, last = false;  // it is the stage's first, last chunk
  int micro_batch = 0;
  int chunk = 0;  // 0 to 3: passes through one chunk share its gathers
};

inline constexpr std::size_t kMostPasses = 24;

struct UnitPasses {
  std::array<UnitPass, kMostPasses> all;
  std::size_t count = 0;
  int last_micro_batch = 0;  // behind its backwards copies of the reduced sums are added up
  void add(const UnitPass& pass) { all[count++] = pass; }
};

// Units of a pass that are walked: the first ones differ from each other, later ones repeat.
inline constexpr int kWalkedUnits = 5;
inline constexpr int kMostVisits = static_cast<int>(kMostPasses) * (kWalkedUnits + 2);

enum class UnitKind : std::uint8_t { kEmbedding, kLayers, kHead };

// 0 or 1, where it says nothing else. A key of FlatMap.
struct UnitShape {
  std::uint8_t units = 1;        // of layers, at most kWalkedUnits
  std::uint8_t back = 1;         // those that backward visits, at most as many
  std::uint8_t passes_over = 0;  // there are more: 1 in forward, 2 in backward too
  std::uint8_t frozen_embedding = 0;
  std::uint8_t embedding = 0, head = 0;
  std::uint8_t tied = 0, ends_stay = 0, gathers = 0, reshards = 0;  // see UnitStage
  std::uint8_t ahead = 0;                                           // at most 6
  std::uint8_t reduces = 0;  // bit by UnitKind: its gradients are reduced
  friend bool operator==(const UnitShape&, const UnitShape&) = default;
};

struct UnitVisit {
  UnitKind unit = UnitKind::kLayers;
  bool forward = true;
  bool starts = false;       // its weights are gathered
  bool replicas = false;     // of the last micro-batch
  bool settled = false;      // units like it, and the one before, follow
  std::uint8_t gathers = 0;  // it issues, before anything else, so many of UnitSchedule::gathers
  std::uint8_t over = 0;     // reductions that are over when it begins
};

struct UnitSchedule {
  std::vector<UnitVisit> visits;
  std::vector<std::size_t> ends;  // by pass: the visit after its last
  std::vector<UnitKind> gathers;  // in the order of issue, which is that of `starts`
};

UnitSchedule list_visits(const UnitShape& shape, const UnitPasses& passes);

}  // namespace trireme::planner
