#include "planner/budget/energy.h"

#include "topologies/node_groups.h"

namespace trireme::planner {

namespace {

// System maximum over the boards' (DGX A100 6.5 kW over 8 x 400 W, H100 10.2 over 5.6, B200 14.3
// over 8): hosts, switches, adapters, fans.
constexpr double kSystemOverBoards = 1.85;
// Of the system's maximum: heavy training drew 76 to 82 % on eight H100; waiting about a third.
constexpr double kBusyShare = 0.8;
constexpr double kIdleShare = 0.35;

}  // namespace

double energy_kwh(const topologies::Cluster& cluster, double hours, double busy,
                  const Power& power) {
  const double kilowatts = topologies::board_watts(cluster) * kSystemOverBoards / 1000;
  return hours * kilowatts * (busy * kBusyShare + (1 - busy) * kIdleShare) * power.facility_share;
}

}  // namespace trireme::planner
