// JSON for people: indented, but an object or array that holds no other is one line, so that a
// table reads as one.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trireme {

// Ends with a newline. Numbers are written so that they read back equal.
std::string readable_json(const nlohmann::ordered_json& json);

}  // namespace trireme
