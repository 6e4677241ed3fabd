// `trireme topo import`: a real machine's topology as a topology file.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files.h"
#include "core/json_reader.h"
#include "core/quantity.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/topo_commands.h"
#include "topologies/import.h"
#include "topologies/topology_file.h"

namespace trireme::tools {
namespace {

struct Options {
  std::string file;
  std::string output;
  std::string gpu;
  std::string network;
  std::string nic;
  std::optional<std::int64_t> nodes;
};

constexpr std::size_t kTopologyMost = std::size_t{64} << 20U;

int run(const Options& options, Console& console) {
  topologies::ImportOptions wanted;
  wanted.gpu = options.gpu;
  wanted.network = options.network;
  wanted.nodes = options.nodes.value_or(1);
  if (!options.nic.empty()) {
    wanted.nic = parse_bandwidth(options.nic, "--nic");
  }
  topologies::Imported imported = topologies::import_topology(
      read_file(options.file, "a topology", kTopologyMost), options.file, wanted);
  const std::string stem = std::filesystem::path(options.file).stem().string();
  imported.cluster.name = imported.cluster.node.name = stem;
  const std::string text = topologies::cluster_to_json(imported.cluster).dump(2) + "\n";
  if (options.output.empty()) {
    fmt::print(console.out, "{}", text);
  } else {
    write_file_atomically(options.output, text);
  }
  if (!console.quiet) {
    for (const std::string& line : imported.completed) {
      fmt::print(console.err, "trireme: {}: not in the file: {}\n", options.file, line);
    }
  }
  return kDone;
}

}  // namespace

void add_topo_import_command(CLI::App& topo, Program& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(
      topo, program, "import",
      "reads NCCL topology XML, nvidia-smi topo -m or rocm-smi --showtopo, and writes a topology "
      "file",
      "trireme topo import node.xml --nodes 16 --network 'NDR InfiniBand' -o cluster.json");
  command->add_option("FILE", options->file, "what the machine printed")->required();
  command->add_option("-o,--output", options->output,
                      "write the topology file there; else to stdout");
  command->add_option("--gpu", options->gpu, "which GPU it is, where the file does not tell");
  command->add_option("--network", options->network, "the network between nodes, by name");
  command->add_option("--nic", options->nic, "the rate of one NIC, such as '400 Gbit/s'");
  add_count_option(*command, "--nodes", options->nodes, "how many such nodes there are", 1,
                   10'000'000);
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
