// The data files that are compiled into the program.
#pragma once

#include <string_view>

namespace trireme::topologies {

// The text of topologies/NAME.json. Requires: it is listed in CMakeLists.txt.
std::string_view embedded_text(std::string_view name);

}  // namespace trireme::topologies
