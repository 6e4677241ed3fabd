#include "tools/machine_file.h"

#include <cctype>
#include <filesystem>
#include <sstream>

#include "core/error.h"
#include "core/files.h"
#include "core/quantity.h"
#include "tools/options.h"
#include "topologies/topology_file.h"

namespace trireme::tools {
namespace {

constexpr std::size_t kTopologyMost = std::size_t{64} << 20U;

// The first words of a host file's lines: "node1 slots=8" is node1.
std::vector<std::string> hosts_of_file(const std::string& path) {
  std::vector<std::string> hosts;
  std::istringstream lines(read_file(path, "a list of hosts", kTopologyMost));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string list;
    if (words >> list) {
      const std::vector<std::string> more = topologies::host_list(list, path);
      hosts.insert(hosts.end(), more.begin(), more.end());
    }
  }
  if (hosts.empty()) {
    throw Error("--nodes", path + " names no host");
  }
  return hosts;
}

// Names of hosts hold more than digits, as Slurm's must.
void read_nodes(const std::string& text, topologies::ImportOptions& wanted) {
  if (text.empty()) {
    return;
  }
  const bool name = std::isalpha(static_cast<unsigned char>(text.front())) != 0 ||
                    text.find_first_of("/[,") != std::string::npos;
  std::error_code no_name;  // a list may be longer than a file's name can be
  if (std::filesystem::is_regular_file(text, no_name)) {
    wanted.hosts = hosts_of_file(text);
  } else if (name) {
    wanted.hosts = topologies::host_list(text, "--nodes");
  } else {
    wanted.nodes = parse_count(text, "--nodes", 1, 10'000'000);
  }
}

}  // namespace

void add_machine_options(Command& command, MachineOptions& options) {
  command.add_option("--gpu", options.gpu,
                     "which GPU it is, where the file does not tell: a name, or a file with a GPU "
                     "object");
  command.add_option("--network", options.network, "the network between nodes, by name");
  command.add_option("--nic", options.nic, "the rate of one NIC, such as '400 Gbit/s'");
  command.add_option("--nodes", options.nodes,
                     "how many such nodes there are; or which of a network's: a list of hosts "
                     "('node[001-004,017]'), or a file with a host a line");
}

std::string read_machine_text(const std::string& path) {
  return read_file(path, "a topology", kTopologyMost);
}

topologies::Imported read_machine(const std::string& path, const MachineOptions& options) {
  return import_machine(read_machine_text(path), path, options);
}

topologies::Imported import_machine(const std::string& text, const std::string& path,
                                    const MachineOptions& options) {
  topologies::ImportOptions wanted;
  if (!options.gpu.empty()) {
    wanted.gpu = topologies::find_or_read_gpu(options.gpu, "--gpu");
  }
  wanted.network = options.network;
  read_nodes(options.nodes, wanted);
  if (!options.nic.empty()) {
    constexpr double kLeast = 1e6;  // bytes a second: a slower one is a slip of the unit
    constexpr double kMost = 1e14;
    wanted.nic = parse_bandwidth(options.nic, "--nic");
    if (wanted.nic.value < kLeast || wanted.nic.value > kMost) {
      throw Error("--nic",
                  "'" + options.nic +
                      "' is no rate of a NIC; from 1 MB/s to 100 TB/s would be right, such "
                      "as '400 Gbit/s'");
    }
  }
  topologies::Imported imported = topologies::import_topology(text, path, wanted);
  imported.cluster.name = imported.cluster.node.name = std::filesystem::path(path).stem().string();
  return imported;
}

}  // namespace trireme::tools
