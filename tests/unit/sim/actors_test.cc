#include "sim/actors.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/program.h"
#include "sim/fabric.h"
#include "step_builder.h"

namespace trireme::sim {
namespace {

// An actor stands for ranks that no fault tells apart. Factors were compared as whole billionths in
// 64 bits: closer ones, and those that leave the 64 bits, were one.
TEST(Actors, RanksOfOneActorHaveOneFault) {
  StepBuilder builder(16, 1);
  builder.group("pair", 2, 1);
  builder.group("row", 4, 1);
  const topologies::Cluster cluster = eight_gpu_nodes(2);
  for (const std::vector<double>& factors :
       {std::vector<double>{1e12, 3e12}, {1.5, 1.5 + 1e-12}, {1.2, 1.3}}) {
    Faults faults;
    faults.stragglers.push_back({.factor = factors[0], .rank = Rank(1), .stage = {}});
    faults.stragglers.push_back({.factor = factors[1], .rank = Rank(2), .stage = {}});
    const ActorGrid grid(builder.program, cluster, faults, false);
    for (std::uint32_t rank = 0; rank < 16; ++rank) {
      EXPECT_EQ(grid.actors()[grid.actor_of(Rank(rank))].compute_factor,
                grid.fault_of(Rank(rank)).compute)
          << rank << " " << factors[0];
    }
  }
}

// Nodes were told apart by nic + 1000 fabric: 0.5 + 1000 x 1 is 1.5 + 1000 x 0.999.
TEST(Fabric, NodesOfUnlikeFaultsAreUnlike) {
  StepBuilder builder(16, 1);
  const topologies::Cluster cluster = eight_gpu_nodes(2);
  Faults faults;
  faults.slow_links.push_back({.kind = SlowLink::Kind::kNic, .factor = 0.5, .node = 0, .nic = {}});
  faults.slow_links.push_back({.kind = SlowLink::Kind::kNic, .factor = 1.5, .node = 1, .nic = {}});
  faults.slow_links.push_back(
      {.kind = SlowLink::Kind::kFastFabric, .factor = 0.999, .node = 1, .nic = {}});
  const ActorGrid grid(builder.program, cluster, faults, false);
  FlowSet flows;
  const Fabric fabric(builder.program, cluster, grid, flows);
  double slowest = 1;
  double fastest = 1;
  std::int64_t links = 0;
  for (const FabricLink& link : fabric.links()) {
    if (link.name.starts_with("NIC") && link.name.ends_with("out")) {
      const double factor = link.capacity.value / link.sound_capacity.value;
      slowest = std::min(slowest, factor);
      fastest = std::max(fastest, factor);
      links += link.links;
    }
  }
  EXPECT_EQ(links, 16);
  EXPECT_EQ(slowest, 0.5);
  EXPECT_EQ(fastest, 1.5);
}

}  // namespace
}  // namespace trireme::sim
