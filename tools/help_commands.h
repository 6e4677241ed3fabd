// Commands about the program itself and the machine it is on.
#pragma once

#include "tools/program.h"

namespace trireme::tools {

void add_doctor_command(CLI::App& app, Program& program);
void add_manual_command(CLI::App& app, Program& program);

}  // namespace trireme::tools
