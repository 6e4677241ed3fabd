// `trireme clusters`: the cluster presets.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/report.h"
#include "tools/table.h"
#include "topologies/cluster.h"

namespace trireme::tools {
namespace {

double gigabytes(BytesPerSecond rate) {
  return rate.value / 1e9;
}

double bf16_tflops(const topologies::Gpu& gpu) {
  const auto found = gpu.peak_dense.contains(topologies::Precision::kBf16)
                         ? gpu.peak_dense.find(topologies::Precision::kBf16)
                         : gpu.peak_dense.find(topologies::Precision::kFp16);
  return found == gpu.peak_dense.end() ? 0 : found->second.value / 1e12;
}

int run(bool json, Console& console) {
  Json list = Json::array();
  Table table{.head = {"cluster", "GPU", "GPUs/node", "TFLOP/s", "memory GiB", "HBM GB/s",
                       "NVLink GB/s", "NICs", "NIC Gbit/s", "network"},
              .rows = {},
              .text_columns = 2};
  for (const std::string& name : topologies::cluster_preset_names()) {
    const topologies::Cluster cluster = topologies::load_cluster(name + "x1");
    const topologies::Gpu& gpu = cluster.gpu;
    const topologies::Node& node = cluster.node;
    list.push_back({{"name", name},
                    {"gpu", gpu.name},
                    {"gpus_per_node", node.gpus},
                    {"peak_tflops", bf16_tflops(gpu)},
                    {"memory_gib", to_gib(gpu.memory)},
                    {"memory_gbytes_per_second", gigabytes(gpu.memory_bandwidth)},
                    {"nvlink_gbytes_per_second", gigabytes(node.nvlink_per_gpu)},
                    {"nics", node.nics},
                    {"nic_gbps", gigabytes(node.nic) * 8},
                    {"network", cluster.network.name},
                    {"source", gpu.source}});
    table.rows.push_back(
        {name + "xN", gpu.name, std::to_string(node.gpus), fmt::format("{:.0f}", bf16_tflops(gpu)),
         fmt::format("{:.0f}", to_gib(gpu.memory)),
         fmt::format("{:.0f}", gigabytes(gpu.memory_bandwidth)),
         fmt::format("{:.0f}", gigabytes(node.nvlink_per_gpu)), std::to_string(node.nics),
         fmt::format("{:.0f}", gigabytes(node.nic) * 8), cluster.network.name});
  }
  if (json) {
    print_json(console, "clusters", {{"clusters", list}});
  } else {
    print_table(console, table);
  }
  return kDone;
}

}  // namespace

void add_clusters_command(Command& app, Program& program) {
  auto json = std::make_shared<bool>(false);
  Command* command =
      add_command(app, program, "clusters", "lists the cluster presets", "trireme clusters");
  command->add_flag("--json", *json, "JSON on stdout");
  program.on(command, [json](Console& console) { return run(*json, console); });
}

}  // namespace trireme::tools
