// Every command of the program, one a file.
#pragma once

#include "tools/program.h"

namespace trireme::tools {

void add_budget_command(Command& app, Program& program);
void add_calibrate_command(Command& app, Program& program);
void add_check_command(Command& app, Program& program);
void add_clusters_command(Command& app, Program& program);
void add_compare_command(Command& app, Program& program);
void add_doctor_command(Command& app, Program& program);
void add_estimate_command(Command& app, Program& program);
void add_explain_command(Command& app, Program& program);
void add_export_command(Command& app, Program& program);
void add_frameworks_command(Command& app, Program& program);
void add_manual_command(Command& app, Program& program);
void add_models_command(Command& app, Program& program);
void add_run_command(Command& app, Program& program);
void add_serve_command(Command& app, Program& program);
void add_validate_command(Command& app, Program& program);
void add_plan_command(Command& app, Program& program);
void add_simulate_command(Command& app, Program& program);
void add_whatif_command(Command& app, Program& program);
void add_topo_command(Command& app, Program& program);
void add_tune_command(Command& app, Program& program);

}  // namespace trireme::tools
