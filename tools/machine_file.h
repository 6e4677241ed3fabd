// A file that a machine's tools printed, with the options that say what it leaves open.
#pragma once

#include <string>

#include "tools/command.h"
#include "topologies/import/import.h"

namespace trireme::tools {

struct MachineOptions {
  std::string gpu, network, nic;
  std::string nodes;  // a count, a list of hosts as Slurm writes it, or a file with a host a line
};
// --gpu --network --nic --nodes.
void add_machine_options(Command& command, MachineOptions& options);
// Named by the file's stem. Throws Error: unreadable, over 64 MiB, no known format.
topologies::Imported read_machine(const std::string& path, const MachineOptions& options);
// The two halves of it, for a caller that looks at the text too: a pipe is read once.
std::string read_machine_text(const std::string& path);
topologies::Imported import_machine(const std::string& text, const std::string& path,
                                    const MachineOptions& options);

}  // namespace trireme::tools
