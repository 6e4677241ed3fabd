#include <nlohmann/json.hpp>
#include <string>

#include "core/json_reader.h"
#include "tests/fuzz/targets/target.h"
#include "topologies/cluster.h"
#include "topologies/routes.h"
#include "topologies/topology_file.h"

namespace trireme::fuzz {

void read_topology(std::string_view text) {
  const topologies::Cluster cluster =
      topologies::load_cluster("{" + std::string(text.substr(text.starts_with('{') ? 1 : 0)));
  require(cluster.gpus > 0 && cluster.gpu.memory.value > 0, "a cluster has GPUs with memory");
  if (cluster.gpus > 1) {
    require(topologies::route(cluster, 0, cluster.gpus - 1).bottleneck.value > 0,
            "GPUs reach each other");
  }
  const nlohmann::json json = nlohmann::json::parse(topologies::cluster_to_json(cluster).dump());
  JsonReader reader(json, "again");
  require(topologies::cluster_to_json(topologies::read_cluster(
              reader, topologies::network_presets())) == topologies::cluster_to_json(cluster),
          "a topology file reads back");
}

}  // namespace trireme::fuzz
