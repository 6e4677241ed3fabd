// `trireme topo collective`: how long a collective takes, as nccl-tests would print it.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/quantity.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/table.h"
#include "tools/topo_commands.h"
#include "topologies/collective_cost.h"

namespace trireme::tools {
namespace {

using topologies::Collective;
using topologies::CostFamily;

struct TopoCollectiveArguments {
  std::string cluster;
  std::optional<std::int64_t> gpus;
  std::optional<std::int64_t> per_node;
  std::string op = "all_reduce";
  std::string bytes = "1MiB,16MiB,256MiB,1GiB";
  std::string family = "nccl";
  std::string calibration;
  std::vector<std::string> settings;  // NCCL_ALGO=Ring
  bool json = false;
};

template <typename Value, std::size_t N>
Value named(const std::string& text, const std::string& where,
            const std::array<std::pair<std::string_view, Value>, N>& table) {
  std::string known;
  for (const auto& [name, value] : table) {
    if (name == text) {
      return value;
    }
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  throw Error(where, "'" + text + "' is none of " + known);
}

constexpr std::array<std::pair<std::string_view, Collective>, 6> kOps = {
    {{"all_reduce", Collective::kAllReduce},
     {"all_gather", Collective::kAllGather},
     {"reduce_scatter", Collective::kReduceScatter},
     {"all_to_all", Collective::kAllToAll},
     {"broadcast", Collective::kBroadcast},
     {"send_recv", Collective::kSendRecv}}};
constexpr std::array<std::pair<std::string_view, CostFamily>, 5> kFamilies = {
    {{"nccl", CostFamily::kNccl},
     {"ring", CostFamily::kRing},
     {"tree", CostFamily::kTree},
     {"hierarchical", CostFamily::kHierarchical},
     {"logp", CostFamily::kLogP}}};

std::vector<Bytes> parse_sizes(const std::string& text) {
  std::vector<Bytes> sizes;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    sizes.push_back(parse_byte_count(text.substr(begin, end - begin), "--bytes"));
    begin = end + 1;
  }
  return sizes;
}

// The group of all GPUs in use, laid out node by node as nccl-tests' ranks are.
topologies::GroupShape all_ranks(const topologies::Cluster& cluster) {
  topologies::GroupShape shape = topologies::group_shape(cluster, cluster.gpus, 1);
  shape.concurrent_per_node = 1;
  return shape;
}

int run(const TopoCollectiveArguments& options, Console& console) {
  topologies::Cluster cluster = topologies::load_cluster(options.cluster);
  if (options.per_node) {
    cluster =
        topologies::with_gpus_per_node(std::move(cluster), static_cast<int>(*options.per_node));
  }
  if (options.gpus) {
    cluster = topologies::narrowed(std::move(cluster), *options.gpus);
  }
  for (const std::string& setting : options.settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos) {
      throw Error("--set", "'" + setting + "' should be NAME=VALUE, such as NCCL_ALGO=Ring");
    }
    topologies::apply_nccl_setting(cluster.nccl, setting.substr(0, equals),
                                   setting.substr(equals + 1), "--set");
  }
  const topologies::Profile profile = options.calibration.empty()
                                          ? topologies::shipped_profile()
                                          : topologies::load_profile(options.calibration);
  const Collective collective = named(options.op, "--op", kOps);
  const CostFamily family = named(options.family, "--family", kFamilies);
  const double factor = topologies::bus_bandwidth_factor(collective, cluster.gpus);
  Json points = Json::array();
  Table table{
      .head = {"size", "time", "algbw GB/s", "busbw GB/s", "algorithm", "protocol", "bottleneck"},
      .rows = {}};
  for (const Bytes size : parse_sizes(options.bytes)) {
    const topologies::CollectiveTime time =
        topologies::collective_time(cluster, profile, collective, all_ranks(cluster), size, family);
    const double seconds = time.time.value;
    const double algbw = seconds > 0.0 ? static_cast<double>(size.value) / seconds * 1e-9 : 0.0;
    points.push_back({{"bytes", size.value},
                      {"seconds", seconds},
                      {"algbw_gbytes_per_second", algbw},
                      {"busbw_gbytes_per_second", algbw * factor},
                      {"algorithm", time.algorithm},
                      {"protocol", time.protocol},
                      {"bottleneck", time.bottleneck}});
    table.rows.push_back({grouped(static_cast<double>(size.value)) + " B", duration_text(seconds),
                          fmt::format("{:.2f}", algbw), fmt::format("{:.2f}", algbw * factor),
                          std::string(time.algorithm), std::string(time.protocol),
                          time.bottleneck});
  }
  if (options.json) {
    print_json(console, "collective",
               {{"cluster", cluster.name},
                {"gpus", cluster.gpus},
                {"op", options.op},
                {"family", options.family},
                {"points", points}});
    return kDone;
  }
  print_heading(console,
                fmt::format("{} over {} GPUs of {}", options.op, cluster.gpus, cluster.name));
  print_table(console, table);
  return kDone;
}

}  // namespace

void add_topo_collective_command(Command& topo, Program& program) {
  auto options = std::make_shared<TopoCollectiveArguments>();
  Command* command =
      add_command(topo, program, "collective", "predicts a collective over the cluster's GPUs",
                  "trireme topo collective --cluster dgx-h100x2 --gpus 16 --op all_reduce --bytes "
                  "1MiB,64MiB,1GiB");
  command
      ->add_option("--cluster", options->cluster, "a preset with a node count, or a topology file")
      ->type_name("C")
      ->required();
  add_count_option(*command, "--gpus", options->gpus, "only the first N GPUs");
  add_count_option(*command, "--gpus-per-node", options->per_node,
                   "use N GPUs (and their share of NICs) of each node", 1, 1024);
  command->add_option("--op", options->op,
                      "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast or send_recv");
  command->add_option("--bytes", options->bytes,
                      "sizes as nccl-tests' size column: 65536,1MiB,1GiB");
  command->add_option("--set,--nccl", options->settings,
                      "NCCL's variables, repeatable: NCCL_ALGO=Ring, NCCL_PROTO=Simple, "
                      "NCCL_MAX_NCHANNELS=8, NCCL_P2P_DISABLE=1, ...");
  command->add_option("--family", options->family, "nccl, ring, tree, hierarchical or logp");
  command
      ->add_option("--calibration", options->calibration, "a profile written by trireme calibrate")
      ->type_name("FILE");
  command->add_flag("--json", options->json, "JSON on stdout");
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
