#include "nccl_tables.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/json_reader.h"
#include "topologies/corrections.h"
#include "topologies/nccl_model.h"

namespace trireme::published {
namespace {

using topologies::Collective;

struct System {
  const char* prefix;   // of the file's name; the longest match counts
  const char* cluster;  // preset without the node count
  int gpus_per_node;    // 0: the preset's
  int nics;             // 0: the preset's
  const char* set_apart;
  bool ring_only = false;  // the command says NCCL_ALGO=Ring, in the source
};

// Which preset each measured system is. Where a file's text states other adapters than the preset
// has, they are here.
constexpr System kSystems[] = {
    {"a100_hdr4_3node", "dgx-a100-40gb", 0, 4, ""},
    {"aic_a100_sxm", "dgx-a100-80gb", 0, 0, ""},
    {"aic_b200_sxm", "dgx-b200", 0, 0, ""},
    {"aic_b300_sxm", "dgx-b300", 0, 0, ""},
    {"aic_gb200", "gb200-nvl72", 0, 0, ""},
    {"aic_gb300", "gb300-nvl72", 0, 0, ""},
    {"aic_h100_sxm", "dgx-h100", 0, 0, ""},
    {"aic_h200_sxm", "hgx-h200", 0, 0, ""},
    {"aic_l40s", "l40s", 0, 0, ""},
    {"aic_rtx_pro_6000", "rtx-pro-6000", 0, 0, ""},
    {"aws_p4de", "aws-p4de", 0, 0, ""},
    {"aws_p5_1node", "aws-p5", 0, 0, ""},
    {"aws_p5_2node", "aws-p5", 0, 0, ""},
    {"aws_p5_eks", "aws-p5", 0, 0, "instance type not stated, half the plateau of p5"},
    {"aws_p5en", "aws-p5en", 0, 0, ""},
    {"azure_nc96", "azure-nc96-a100", 0, 0, ""},
    {"azure_ndh100v5", "azure-ndv5", 0, 0, ""},
    {"coreweave_gb200", "gb200-nvl72", 0, 0, ""},
    {"coreweave_gb200_20rack", "gb200-nvl72", 0, 0, "reduces in the InfiniBand switches (SHARP)"},
    {"dgxa100", "dgx-a100-80gb", 0, 0, ""},
    {"gb200_nvl4x3", "gb200-nvl72", 4, 4, ""},
    {"gb200_nvl8x3", "gb200-nvl72", 8, 8, ""},
    {"gcp_a3mega", "gcp-a3-mega", 0, 0, ""},
    {"h100_2node_4gpu_crossnic0", "dgx-h100", 4, 4, "network not stated"},
    {"h100pcie_nvlink_pair", "h100-pcie", 0, 0, "one of three NVLink bridges by its rate"},
    {"h20_8gpu", "hgx-h20", 0, 0, ""},
    {"oci_a100_b4", "oci-gpu4", 0, 0, "", true},
    {"oci_h100", "oci-h100", 0, 0, ""},
    {"oci_mi300x", "oci-mi300x", 0, 0, ""},
    {"oke_a100", "oci-gpu4", 0, 0, ""},
    {"p4d_1to4node_1GiB_1", "aws-p4d", 0, 0, ""},
    {"p4d_1to4node", "aws-p4d", 0, 0, "known-bad configuration"},
    {"simumax_h100", "dgx-h100", 0, 0, ""},
    {"stas_mi300x", "mi300x", 0, 0, ""},
    {"vtrain_a100", "dgx-a100-80gb", 0, 0, ""},
    {"vtrain_v100", "dgx1-v100", 0, 0, ""},
};

const System* find_system(const std::string& name) {
  const System* best = nullptr;
  for (const System& system : kSystems) {
    if (name.starts_with(system.prefix) &&
        (best == nullptr || std::string(system.prefix).size() > std::string(best->prefix).size())) {
      best = &system;
    }
  }
  return best;
}

Collective collective_of(const std::string& name) {
  constexpr std::pair<const char*, Collective> kNames[] = {
      {"all_reduce", Collective::kAllReduce},         {"all_gather", Collective::kAllGather},
      {"reduce_scatter", Collective::kReduceScatter}, {"alltoall", Collective::kAllToAll},
      {"broadcast", Collective::kBroadcast},          {"sendrecv", Collective::kSendRecv}};
  for (const auto& [text, collective] : kNames) {
    if (name == text) {
      return collective;
    }
  }
  TRIREME_CHECK(!"a collective that the reader knows");
  return Collective::kAllReduce;
}

void place(NcclTable& table, const System& system, int gpus) {
  topologies::Cluster cluster = topologies::load_cluster(system.cluster);
  if (system.gpus_per_node > 0) {
    cluster.node.gpus = cluster.node.nvlink_domain = system.gpus_per_node;
  }
  if (system.nics > 0) {
    cluster.node.nics = system.nics;
  }
  const std::int64_t node_gpus = cluster.node.gpus;
  cluster.nodes = (gpus + node_gpus - 1) / node_gpus;
  cluster.gpus = gpus;
  table.group = {.ranks = gpus,
                 .ranks_per_node = std::min<std::int64_t>(gpus, node_gpus),
                 .stride = 1,
                 .concurrent_per_node = 1};
  table.cluster = std::move(cluster);
}

}  // namespace

std::vector<NcclTable> read_nccl_tables(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/nccl_tests")) {
    files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<NcclTable> tables;
  for (const auto& file : files) {
    const nlohmann::json json = read_json_file(file.string());
    NcclTable table;
    table.name = file.stem().string();
    const System* system = find_system(table.name);
    if (!json.contains("rows") || system == nullptr) {
      continue;
    }
    table.machine = system->prefix;
    table.set_apart = system->set_apart;
    place(table, *system, json.at("gpus").get<int>());
    if (system->ring_only ||
        json.at("hardware").get<std::string>().find("NVLS off, ring") != std::string::npos) {
      table.cluster.nccl.algorithms = 1U << index_of(topologies::NcclAlgorithm::kRing);
    }
    table.collective = collective_of(json.at("collective").get<std::string>());
    for (const auto& row : json.at("rows")) {
      table.rows.push_back(
          {row.at("bytes").get<std::int64_t>(), row.at("time_us").get<double>() * 1e-6});
    }
    const auto& fitted = topologies::fitted_tables();
    table.fitted = std::ranges::find(fitted, table.name) != fitted.end();
    tables.push_back(std::move(table));
  }
  return tables;
}

double predicted_seconds(const NcclTable& table, const topologies::Profile& profile,
                         std::int64_t bytes) {
  return topologies::collective_time(table.cluster, profile, table.collective, table.group,
                                     Bytes(bytes))
      .time.value;
}

double median(std::vector<double> values) {
  TRIREME_CHECK(!values.empty());
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

TableError table_error(const NcclTable& table, const topologies::Profile& profile) {
  std::vector<double> large;
  std::vector<double> small;
  TableError error;
  for (const NcclTable::Row& row : table.rows) {
    const double predicted = predicted_seconds(table, profile, row.bytes);
    const double relative = std::abs(predicted / row.seconds - 1.0);
    (row.bytes >= 1 << 20 ? large : small).push_back(relative);
    error.ratio_largest = predicted / row.seconds;
  }
  if (!large.empty()) {
    error.large = median(large);
  }
  if (!small.empty()) {
    error.small = median(small);
  }
  return error;
}

}  // namespace trireme::published
