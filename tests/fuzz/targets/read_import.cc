#include "topologies/import/import.h"

#include <string>

#include "tests/fuzz/targets/target.h"
#include "topologies/routes.h"

namespace trireme::fuzz {

void read_import(std::string_view text) {
  static const topologies::ImportOptions options = [] {
    topologies::ImportOptions given;
    given.gpu = topologies::find_gpu("A100", "fuzz");
    return given;
  }();
  const topologies::Cluster cluster =
      topologies::import_topology(std::string(text), "file", options).cluster;
  require(cluster.gpus > 0, "a cluster has GPUs");
  if (cluster.gpus > 1) {
    require(topologies::route(cluster, 0, cluster.gpus - 1).bottleneck.value > 0,
            "GPUs reach each other");
  }
}

}  // namespace trireme::fuzz
