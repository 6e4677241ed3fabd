// `trireme topo`: what a cluster looks like, and what its collectives cost.

#include "tools/commands.h"
#include "tools/topo_commands.h"

namespace trireme::tools {

void add_topo_command(Command& app, Program& program) {
  Command* topo = app.add_command(
      "topo", "shows a topology, imports one, predicts its collectives, names what looks wrong");
  topo->require_command();
  topo->footer("Example:\n  trireme topo show --cluster dgx-h100x16");
  add_topo_show_command(*topo, program);
  add_topo_collective_command(*topo, program);
  add_topo_import_command(*topo, program);
  add_topo_lint_command(*topo, program);
}

}  // namespace trireme::tools
