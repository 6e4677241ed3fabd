// The parts of `trireme topo`, one a file.
#pragma once

#include "tools/program.h"

namespace trireme::tools {

void add_topo_show_command(Command& topo, Program& program);
void add_topo_collective_command(Command& topo, Program& program);
void add_topo_import_command(Command& topo, Program& program);
void add_topo_lint_command(Command& topo, Program& program);

}  // namespace trireme::tools
