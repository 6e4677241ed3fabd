// A command of the program, run inside the process.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "api/arguments.h"

namespace trireme::api {

// The JSON that the command prints. Throws Error with its one line.
nlohmann::ordered_json json_of(const Words& command, const Words& arguments);

}  // namespace trireme::api
