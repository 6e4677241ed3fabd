// Random machines: more bandwidth or less latency anywhere never makes a collective or a route
// slower, once NCCL's choice of algorithm and protocol is held (the choice follows NCCL's own
// expectation, which may pick the slower one); a matrix that is exported imports as itself.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <random>

#include "topologies/collective_cost.h"
#include "topologies/import/import.h"
#include "topologies/nccl_constants.h"
#include "topologies/node_layout.h"
#include "topologies/routes.h"

namespace trireme::topologies {
namespace {

using Random = std::mt19937_64;

int below(Random& random, int bound) {
  return static_cast<int>(random() % static_cast<std::uint64_t>(bound));
}

std::shared_ptr<const NodeLayout> random_layout(Random& random, const Node& node) {
  std::vector<Place> gpus;
  std::vector<Place> nics;
  const auto place = [&random] {
    const int socket = below(random, 2);
    const int bridge = 2 * socket + below(random, 2);
    const int tree = 2 * bridge + below(random, 2);
    return Place{socket, bridge, tree, 2 * tree + below(random, 2), {}};
  };
  gpus.reserve(static_cast<std::size_t>(node.gpus));
  for (int i = 0; i < node.gpus; ++i) {
    gpus.push_back(place());
  }
  nics.reserve(static_cast<std::size_t>(node.nics));
  for (int i = 0; i < node.nics; ++i) {
    nics.push_back(place());
  }
  for (std::vector<Place>* places : {&gpus, &nics}) {
    for (Place& each : *places) {
      each.rate = BytesPerSecond(below(random, 3) == 0 ? 4e9 * (1 + below(random, 8)) : 0);
    }
  }
  LinkCounts links;
  if (node.fabric == Node::Fabric::kMesh) {
    const auto count = static_cast<std::size_t>(node.gpus);
    links.assign(count, std::vector<int>(count, 0));
    for (std::size_t a = 0; a < count; ++a) {
      for (std::size_t b = a + 1; b < count; ++b) {
        links[a][b] = links[b][a] = below(random, 3);
      }
    }
  }
  return make_layout(std::move(gpus), std::move(nics), std::move(links));
}

Cluster random_machine(Random& random) {
  constexpr std::array kPresets = {
      "dgx-a100-80gbx4", "dgx-h100x6", "dgx1-v100x3",    "mi300xx4",      "l40sx4",
      "h100-pciex4",     "aws-p4dx4",  "rtx-pro-6000x4", "gb200-nvl72x2", "azure-ndv5x8"};
  Cluster cluster =
      load_cluster(kPresets[static_cast<std::size_t>(below(random, kPresets.size()))]);
  cluster.network.oversubscription = 1 + below(random, 4);
  cluster.network.nodes_per_unit = 1 + below(random, 4);
  if (cluster.node.gpus <= 8 && below(random, 2) == 0) {
    cluster.node.layout = random_layout(random, cluster.node);
  }
  if (below(random, 2) == 0) {
    NetworkLevel pod{.name = "pod",
                     .nodes = 2LL * cluster.network.nodes_per_unit,
                     .oversubscription = 1.0 + below(random, 4),
                     .out = BytesPerSecond(below(random, 2) * 20e9),
                     .latency = Seconds(1e-6 * below(random, 5000))};
    cluster.network.levels.push_back(std::move(pod));
  }
  if (below(random, 4) == 0) {
    cluster.network.kind = Network::Kind::kDragonfly;
  }
  cluster.nccl.algorithms = 1U << below(random, 3);
  cluster.nccl.protocols = 1U << below(random, 3);
  return narrowed(cluster, 2 + below(random, static_cast<int>(cluster.gpus) - 1));
}

// One edge of a node's own graph: a device's PCIe link, or one more link between two GPUs.
void improve_one_edge(Cluster& cluster, Random& random, double factor) {
  if (!cluster.node.layout) {
    return;
  }
  const NodeLayout& layout = *cluster.node.layout;
  std::vector<Place> gpus = layout.gpus;
  std::vector<Place> nics = layout.nics;
  LinkCounts links = layout.links;
  const int edge = below(random, static_cast<int>(gpus.size() + nics.size()));
  if (!links.empty() && below(random, 2) == 0) {
    // As many links a GPU, one of them to another peer: the rate of a link stays.
    const auto a = static_cast<std::size_t>(below(random, static_cast<int>(gpus.size()) - 1));
    const auto b =
        a + 1 + static_cast<std::size_t>(below(random, static_cast<int>(gpus.size() - a - 1)));
    links[a][b] = ++links[b][a];
  } else {
    const auto at = static_cast<std::size_t>(edge);
    Place& place = at < gpus.size() ? gpus[at] : nics[at - gpus.size()];
    place.rate = (place.rate.value > 0 ? place.rate : cluster.node.pcie_per_gpu) * factor;
  }
  cluster.node.layout = make_layout(std::move(gpus), std::move(nics), std::move(links));
}

struct Change {
  const char* name;
  std::function<void(Cluster&, double)> apply;  // with a factor above 1
};
const std::vector<Change>& improvements() {
  static const std::vector<Change> all = {
      {"nvlink_per_gpu",
       [](Cluster& c, double f) { c.node.nvlink_per_gpu = c.node.nvlink_per_gpu * f; }},
      {"pcie_per_gpu", [](Cluster& c, double f) { c.node.pcie_per_gpu = c.node.pcie_per_gpu * f; }},
      {"socket_link", [](Cluster& c, double f) { c.node.socket_link = c.node.socket_link * f; }},
      {"nic", [](Cluster& c, double f) { c.node.nic = c.node.nic * f; }},
      {"nvlink_latency",
       [](Cluster& c, double f) { c.node.nvlink_latency = c.node.nvlink_latency * (1 / f); }},
      {"nic_latency",
       [](Cluster& c, double f) { c.node.nic_latency = c.node.nic_latency * (1 / f); }},
      {"switch_latency",
       [](Cluster& c, double f) { c.network.switch_latency = c.network.switch_latency * (1 / f); }},
      {"level's rate",
       [](Cluster& c, double f) {
         for (NetworkLevel& level : c.network.levels) {
           level.out = level.out * f;
           level.oversubscription = std::max(1.0, level.oversubscription / f);
         }
       }},
      {"level's latency",
       [](Cluster& c, double f) {
         for (NetworkLevel& level : c.network.levels) {
           level.latency = level.latency * (1 / f);
         }
       }},
      {"oversubscription", [](Cluster& c, double f) {
         c.network.oversubscription = std::max(1.0, c.network.oversubscription / f);
       }}};
  return all;
}

TEST(Machines, BetterLinksNeverSlowACollective) {
  constexpr double kRounding = 1 + 1e-12;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    const Cluster cluster = random_machine(random);
    const GroupShape group = group_shape(cluster, cluster.gpus, 1);
    const auto bytes = Bytes(std::int64_t{1} << below(random, 33));
    const double factor = 1.0 + below(random, 100) / 25.0;
    std::vector<Change> changes = improvements();
    changes.push_back({"one edge of the node",
                       [&random](Cluster& c, double f) { improve_one_edge(c, random, f); }});
    for (const Change& change : changes) {
      Cluster better = cluster;
      change.apply(better, factor);
      for (const Collective op :
           {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
            Collective::kBroadcast, Collective::kAllToAll, Collective::kSendRecv}) {
        const auto seconds = [&](const Cluster& machine) {
          return collective_time(machine, shipped_profile(), op, group, bytes).time.value;
        };
        EXPECT_LE(seconds(better), seconds(cluster) * kRounding)
            << "seed " << seed << " " << cluster.name << " " << change.name << " x" << factor
            << " op " << static_cast<int>(op) << " " << bytes.value << " bytes";
      }
      const Route before = route(cluster, 0, cluster.gpus - 1, seed);
      EXPECT_LE(route(better, 0, cluster.gpus - 1, seed).latency.value, before.latency.value + 1e-8)
          << "seed " << seed << " " << change.name;
    }
  }
}

TEST(Machines, ExportedMatricesImportAsThemselves) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    Cluster cluster = load_cluster("l40s");
    cluster.node.gpus = 2 + below(random, 7);
    cluster.node.nics = 1 + below(random, 4);
    cluster.node.layout = random_layout(random, cluster.node);
    // Adapters that are far where others are near are taken for management ones: leave them out.
    const NodeLayout& layout = *cluster.node.layout;
    if (layout.nic_path > Path::kBridge) {
      cluster.node.layout = make_layout(layout.gpus, {}, {});
      cluster.node.nics = 0;
    }
    const std::string text = matrix_text(cluster.node);
    ImportOptions options;
    options.gpu = cluster.gpu;
    Imported again = import_topology(text, "matrix", options);
    if (cluster.node.nics == 0) {  // the importer completes a node without adapters
      again.cluster.node.layout = make_layout(layout_of(again.cluster.node).gpus, {}, {});
      again.cluster.node.nics = 0;
    }
    EXPECT_EQ(matrix_text(again.cluster.node), text) << "seed " << seed;
  }
}

}  // namespace
}  // namespace trireme::topologies
