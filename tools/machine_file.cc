#include "tools/machine_file.h"

#include <filesystem>

#include "core/files.h"
#include "core/quantity.h"
#include "tools/options.h"
#include "topologies/topology_file.h"

namespace trireme::tools {
namespace {

constexpr std::size_t kTopologyMost = std::size_t{64} << 20U;

}  // namespace

void add_machine_options(CLI::App& command, MachineOptions& options) {
  command.add_option("--gpu", options.gpu,
                     "which GPU it is, where the file does not tell: a name, or a file with a GPU "
                     "object");
  command.add_option("--network", options.network, "the network between nodes, by name");
  command.add_option("--nic", options.nic, "the rate of one NIC, such as '400 Gbit/s'");
  add_count_option(command, "--nodes", options.nodes, "how many such nodes there are", 1,
                   10'000'000);
}

topologies::Imported read_machine(const std::string& path, const MachineOptions& options) {
  topologies::ImportOptions wanted;
  if (!options.gpu.empty()) {
    wanted.gpu = topologies::find_or_read_gpu(options.gpu, "--gpu");
  }
  wanted.network = options.network;
  wanted.nodes = options.nodes.value_or(0);
  if (!options.nic.empty()) {
    wanted.nic = parse_bandwidth(options.nic, "--nic");
  }
  topologies::Imported imported =
      topologies::import_topology(read_file(path, "a topology", kTopologyMost), path, wanted);
  imported.cluster.name = imported.cluster.node.name = std::filesystem::path(path).stem().string();
  return imported;
}

}  // namespace trireme::tools
