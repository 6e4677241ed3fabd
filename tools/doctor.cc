// `trireme doctor`: what this machine has of what the program can use, and what brings the rest.
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/machine_checks.h"
#include "tools/report.h"
#include "tools/table.h"

namespace trireme::tools {
namespace {

struct DoctorArguments {
  MachineLook look;
  bool json = false;
};

int run(DoctorArguments options, Console& console) {
  const char* path = std::getenv("PATH");
  options.look.path = path == nullptr ? "" : path;
  const std::vector<MachineCheck> checks = check_machine(options.look);
  if (options.json) {
    Json list = Json::array();
    for (const MachineCheck& check : checks) {
      list.push_back({{"name", check.name},
                      {"state", to_string(check.state)},
                      {"detail", check.detail},
                      {"fix", check.fix}});
    }
    print_json(console, "doctor", {{"checks", list}});
    return kDone;
  }
  Table table{.head = {"what", "state", "found"}, .rows = {}, .text_columns = 3};
  for (const MachineCheck& check : checks) {
    table.rows.push_back({check.name, std::string(to_string(check.state)), check.detail});
  }
  print_table(console, table);
  fmt::print(console.out, "\n");
  for (const MachineCheck& check : checks) {
    if (check.state != CheckState::kOk) {
      fmt::print(console.out, "{}: {}\n", check.name, check.fix);
    }
  }
  return kDone;
}

}  // namespace

void add_doctor_command(Command& app, Program& program) {
  auto options = std::make_shared<DoctorArguments>();
  Command* command =
      add_command(app, program, "doctor",
                  "what this machine has for running and calibrating, and what brings the rest",
                  "trireme doctor --json");
  command
      ->add_option("--calibration", options->look.profile,
                   "a profile written by 'trireme calibrate'")
      ->type_name("FILE");
  command
      ->add_option("--libraries", options->look.libraries,
                   "look for CUDA's libraries in this folder only")
      ->type_name("FOLDER");
  command->add_flag("--json", options->json, "JSON on stdout");
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
