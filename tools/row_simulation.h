// A published row through lowering and the simulator, beside the closed form; where the two differ,
// what in the simulated trace makes them differ.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "planner/calibrate/validation.h"
#include "tools/report.h"

namespace trireme::tools {

// One reason why the simulated step is not the closed form's, seen on the busiest rank.
struct Cause {
  std::string name;              // "exposed prefetch or reduction", "shared links", …
  double seconds = 0;            // of the simulated step
  double estimated_seconds = 0;  // the closed form's of the same
  std::string detail;            // the number in the trace that shows it
};

struct RowSimulation {
  double seconds = 0;            // simulated step; 0: not simulated
  double estimated_seconds = 0;  // closed form
  std::string not_simulated;     // why; empty = it was
  std::vector<Cause> causes;     // the largest first; empty when the two agree
  [[nodiscard]] double difference() const { return seconds / estimated_seconds - 1; }
};

// Simulated and closed form further apart than this are explained.
inline constexpr double kAgreement = 0.03;

// Requires: the case is not skipped. Never throws for what the row asks: `not_simulated` says it.
RowSimulation simulate_row(const planner::ValidationCase& one, const topologies::Profile& profile);

Json row_simulation_json(const RowSimulation& simulated);
// "exposed prefetch or reduction +41.0 ms, shared links +3.0 ms"
std::string causes_text(const RowSimulation& simulated);

}  // namespace trireme::tools
