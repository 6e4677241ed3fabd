// A command's manual page, in the language of man(7).
#pragma once

#include <string>

#include "tools/command_tree.h"

namespace trireme::tools {

// `version` stands in the footer. There is no date: one source gives one page.
std::string man_page(const CommandPage& page, const std::string& version);

}  // namespace trireme::tools
