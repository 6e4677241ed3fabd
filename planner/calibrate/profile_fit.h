// From the raw points of micro-benchmarks to a profile of that machine.
#pragma once

#include <string>
#include <vector>

#include "core/microbenchmarks.h"
#include "planner/calibrate/collective_fit.h"
#include "topologies/cluster.h"
#include "topologies/profile.h"

namespace trireme::planner {

struct ProfileFitSettings {
  topologies::Cluster cluster;  // the machine the points are of
  std::string source;  // said in the profile: "measured by trireme calibrate", a file's name
  // The host issued each op and waited for it, as PyTorch's timers do: points near the least time
  // of their kind say how long issuing takes, and are left out.
  bool host_timed = false;
  // Built on: what it measured of this card stays where the points say nothing. Empty: nothing.
  topologies::Profile base = {};
};

struct FitLine {
  std::string what;     // "matrix products, forward"
  int points = 0;       // that were fitted
  double residual = 0;  // median relative error of the profile over them
};

struct ProfileFit {
  topologies::Profile profile;
  std::vector<FitLine> lines;
  std::vector<CollectiveFitReport> collectives;
};

// Constants and tables of the GPU, tables and corrections of its collectives, overlap. What was not
// measured keeps the shipped constants of the card. Throws Error when there is no point at all.
ProfileFit fit_profile(const Microbenchmarks& points, const ProfileFitSettings& settings);

// Median relative error of `profile` over the points of one kind on `cluster`; lines without points
// are left out.
std::vector<FitLine> errors_on_points(const Microbenchmarks& points,
                                      const topologies::Cluster& cluster,
                                      const topologies::Profile& profile);

}  // namespace trireme::planner
