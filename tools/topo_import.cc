// `trireme topo import`: a real machine's topology as a topology file.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "core/files.h"
#include "core/json_reader.h"
#include "tools/machine_file.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/topo_commands.h"
#include "topologies/topology_file.h"

namespace trireme::tools {
namespace {

struct TopoImportArguments {
  std::string file;
  std::string output;
  MachineOptions machine;
};

int run(const TopoImportArguments& options, Console& console) {
  const topologies::Imported imported = read_machine(options.file, options.machine);
  const std::string text = topologies::cluster_to_json(imported.cluster).dump(2) + "\n";
  if (options.output.empty()) {
    fmt::print(console.out, "{}", text);
  } else {
    write_file_atomically(options.output, text);
  }
  if (!console.quiet) {
    for (const topologies::Doubt& doubt : imported.doubts) {
      fmt::print(console.err, "trireme: {}: {}: {}\n", options.file, doubt.where, doubt.detail);
    }
    for (const std::string& line : imported.remarks) {
      fmt::print(console.err, "trireme: {}: {}\n", options.file, line);
    }
  }
  return kDone;
}

}  // namespace

void add_topo_import_command(Command& topo, Program& program) {
  auto options = std::make_shared<TopoImportArguments>();
  Command* command = add_command(
      topo, program, "import",
      "reads a machine as its tools print it (NCCL or lstopo XML, nvidia-smi topo -m, rocm-smi "
      "--showtopo, NCCL logs, Slurm's topology.conf or .yaml, topograph, ibnetdiscover) and writes "
      "a topology file",
      "trireme topo import node.xml --nodes 16 --network 'NDR InfiniBand' -o cluster.json");
  command->add_option("FILE", options->file, "what the machine printed")->required();
  command->add_option("-o,--output", options->output,
                      "write the topology file there; else to stdout");
  add_machine_options(*command, options->machine);
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
