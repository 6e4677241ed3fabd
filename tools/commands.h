// Every command of the program, one a file.
#pragma once

#include "tools/program.h"

namespace trireme::tools {

void add_budget_command(CLI::App& app, Program& program);
void add_calibrate_command(CLI::App& app, Program& program);
void add_check_command(CLI::App& app, Program& program);
void add_clusters_command(CLI::App& app, Program& program);
void add_compare_command(CLI::App& app, Program& program);
void add_doctor_command(CLI::App& app, Program& program);
void add_estimate_command(CLI::App& app, Program& program);
void add_explain_command(CLI::App& app, Program& program);
void add_export_command(CLI::App& app, Program& program);
void add_frameworks_command(CLI::App& app, Program& program);
void add_manual_command(CLI::App& app, Program& program);
void add_models_command(CLI::App& app, Program& program);
void add_run_command(CLI::App& app, Program& program);
void add_serve_command(CLI::App& app, Program& program);
void add_validate_command(CLI::App& app, Program& program);
void add_plan_command(CLI::App& app, Program& program);
void add_simulate_command(CLI::App& app, Program& program);
void add_whatif_command(CLI::App& app, Program& program);
void add_topo_command(CLI::App& app, Program& program);
void add_tune_command(CLI::App& app, Program& program);

}  // namespace trireme::tools
