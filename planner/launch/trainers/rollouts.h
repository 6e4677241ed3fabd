// Batches that rollouts make: what trains an actor takes samples that were generated before, one by
// one or in packs of so many tokens. slime, miles, verl and OpenRLHF say them alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "planner/launch/launch_config.h"

namespace trireme::planner {

struct RolloutSamples {
  std::optional<std::int64_t> step;     // samples that one step of the optimizer takes
  std::optional<std::int64_t> longest;  // tokens of a sample at most
  std::int64_t ranks = 1;               // that hold samples of their own
  // Dealt out into as few packs as the tokens fill (verl), not one after the other into the first
  // pack with room.
  bool dealt = false;
  std::int64_t divisor = 1;  // of the packs of a rank: interleaved stages take groups of them
  std::string_view by;       // what makes packs: "--use-dynamic-batch-size"
  std::string_view limit;    // what says how many tokens one has: "--max-tokens-per-gpu"
};

// Ranks that hold samples of their own: the GPUs that are started over the degrees of the layout.
std::int64_t data_ranks(const LaunchConfig& config);

struct RolloutPacks {
  std::int64_t sequence = 0;          // tokens of a micro-batch
  std::optional<std::int64_t> batch;  // packs a step
};

// A micro-batch is a pack of samples of at most `pack` tokens, and a sample longer than that is one
// of its own. As many packs as samples of the full length make, the same number on every rank. What
// it rests on is said in the remarks of `config`.
RolloutPacks packs_of(const RolloutSamples& samples, std::int64_t pack, LaunchConfig& config);

// What shares the actor's GPUs while it trains (a critic, a rollout engine that does not let go) is
// named: where the actor fits, whether all of it does is not known.
void note_beside(LaunchConfig& config, std::string what);
// Says that the step is the actor's alone; `steps`: how many of them a rollout makes, if more than
// one.
void note_actor(LaunchConfig& config, double steps = 1);

}  // namespace trireme::planner
