// A run from its first step to its last, with failures at random: seeded, the same whatever the
// number of threads.
#pragma once

#include <cstdint>

#include "planner/budget/goodput.h"

namespace trireme::planner {

struct Repairs {
  double seconds = 0;        // until a failed node is back
  std::int64_t spares = -1;  // nodes that wait; -1 = always enough
  // Without a spare the run goes on with fewer replicas: useful seconds a second of it. 0: it waits
  // for the first node to come back.
  double speed_without_one = 0;
  double needs_node =
      1;  // share of failures that take their node away; the others restart in place
};

struct WholeRun {
  double useful_seconds = 0;  // of training without any stop
  Stops stops;
  double interval = 0;  // useful seconds between saves; 0 = no saves
  Repairs repairs;
  std::uint64_t seed = 1;
  int trials = 10'000;
  int threads = 2;
};

struct WholeRunResult {
  double mean_seconds = 0, low_seconds = 0, high_seconds = 0;  // wall; 5th and 95th percentile
  double failures = 0;                                         // mean
  double goodput = 0;                                          // useful over mean wall time
  bool ends = true;  // false: more is lost than done; the run does not end
};
WholeRunResult simulate_run(const WholeRun& run);

// The interval, of those around the closed form's, with the highest simulated goodput.
double best_simulated_interval(WholeRun run);

}  // namespace trireme::planner
