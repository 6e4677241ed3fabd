// `--report FILE.html` of the commands that write their answer as a page too.
#pragma once

#include <string>

#include "tools/command.h"

namespace trireme::tools {

inline void add_report_option(Command& command, std::string& path) {
  command.add_option("--report", path, "write the answer as a page, FILE.html")->type_name("FILE");
}

}  // namespace trireme::tools
