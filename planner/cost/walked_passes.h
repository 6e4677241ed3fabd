// A few micro-batches' passes through a stage's chunks, which stand for all of a step's.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "planner/cost/unit_schedule.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// Chunks of one rank: the stage's first, its last, and those between.
enum class Place : std::uint8_t { kFirst, kBetween, kLast };

// What decides which passes are walked. A part of a key of FlatMap.
struct PassPattern {
  std::uint8_t micro_batches = 0;  // of one chunk, at most three; 0: chunks in turn
  std::uint8_t ahead = 1;          // forwards that come before the first backward
  std::uint8_t ends = 0;           // 1: the rank has an end of the model, on chunks of its own
  std::uint8_t between = 0;        // 1: and chunks between
  friend bool operator==(const PassPattern&, const PassPattern&) = default;
};
PassPattern pass_pattern(const Plan& plan, bool embedding, bool head);

struct WalkedPasses {
  // Passes like this one, of a micro-batch: as many as there are chunks at its place, times the
  // share of passes that are in turn, or alone.
  struct Like {
    std::size_t pass = 0;
    Place place = Place::kBetween;
    bool in_turn = true;
  };
  UnitPasses passes;
  std::vector<Like> likes;
};
WalkedPasses walked_passes(const PassPattern& pattern);

// How many passes of a micro-batch each of `likes` stands for.
struct PassCounts {
  std::array<double, 3> chunks = {0, 1, 0};  // by Place
  double alone = 0;                          // share of forwards, as of backwards, without a turn
  [[nodiscard]] double of(const WalkedPasses::Like& like) const {
    return chunks[static_cast<std::size_t>(like.place)] * (like.in_turn ? 1 - alone : alone);
  }
};
PassCounts pass_counts(const Plan& plan, const PassPattern& pattern);

}  // namespace trireme::planner
