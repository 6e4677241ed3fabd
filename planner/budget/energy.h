// Electric energy of a run, from the boards' power and what stands around them.
#pragma once

#include "topologies/cluster.h"

namespace trireme::planner {

struct Power {
  double facility_share = 1.25;  // power usage effectiveness; fleets report 1.1 to 1.6
};

// Kilowatt-hours of `hours` of wall time, of which `busy` (a share) computes.
double energy_kwh(const topologies::Cluster& cluster, double hours, double busy,
                  const Power& power = {});

}  // namespace trireme::planner
