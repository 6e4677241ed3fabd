// What would happen: a step program as discrete events on a cluster. Streams are first-in first-out
// servers; the host issues ops one after the other; collectives and messages are flows over the
// links their algorithm loads, which share them by max-min fairness. A lone transfer takes exactly
// the duration it was given (a flow asks each link for its bytes over that time), so without shared
// links and faults the answer is walk's to the picosecond.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/op_times.h"
#include "core/program.h"
#include "core/trace.h"
#include "sim/faults.h"
#include "topologies/cluster.h"

namespace trireme::sim {

struct SimulateOptions {
  bool share_links = true;    // false: transfers do not meet on links
  bool unfold = false;        // simulate every rank by itself
  bool record_trace = true;   // one timing for each op of each actor, by its first rank
  bool record_links = false;  // LinkSamples
  double compute_slowdown =
      0;  // a compute op takes 1 + this times as long while a collective runs on its rank
  Faults faults;
};

// What a rank's time went into, each instant counted once: compute comes before communication, and
// communication that runs alone is exposed. In the order in which they win.
enum class Activity : std::uint8_t {
  kCompute,
  kOptimizer,
  kTensor,
  kContext,
  kExpert,
  kData,
  kPipeline,
  kOptimizerExchange,
  kOther,
  kIdle,
};
inline constexpr std::size_t kActivities = 10;

// Ranks that did the same; see sim/actors.h.
struct ActorReport {
  Rank rank{};  // the first of them
  RoleIndex role{};
  std::int64_t ranks = 1;
  SimDuration busy, communicating, exposed_communication;  // as core/trace.h's RankActivity
  std::array<SimDuration, kActivities> spent{};            // by Activity; adds up to the step
};
struct LinkReport {
  std::string name;
  BytesPerSecond capacity;
  std::int64_t links = 1;  // how many alike
  double utilisation = 0;  // bytes carried over capacity * step
};
// Load of a link from `time` on, as a share of its capacity.
struct LinkSample {
  SimTime time;
  std::uint32_t link = 0;  // in Simulation::links
  double load = 0;
};

struct Simulation {
  Trace trace;  // timings empty unless recorded; by actor, then op
  SimDuration step;
  std::uint64_t events = 0;  // ops started and ended, transfers begun, rates changed
  std::vector<ActorReport> actors;
  std::vector<LinkReport> links;
  std::vector<LinkSample> samples;
  // Not empty when the program got stuck: each blocked actor, its op and what it waits for, one a
  // line.
  std::string deadlock;
};

// `times` must be the durations on `cluster`. Throws Error when a fault names what does not exist,
// or when jitter or `unfold` would need more than about 4 GiB.
Simulation simulate(const StepProgram& program, const StepTimes& times,
                    const topologies::Cluster& cluster, const SimulateOptions& options = {});

}  // namespace trireme::sim
