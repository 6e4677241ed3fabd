// What commands print: JSON under its schema, and an estimate as JSON and as tables.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "planner/plan.h"
#include "tools/program.h"

namespace trireme::tools {

using Json = nlohmann::ordered_json;

// Prints `body` with "schema": "trireme.<name>/1" in front, indented, to `console.out`.
void print_json(const Console& console, const std::string& name, const Json& body);
// The "layout" object of CLI.md.
Json layout_json(const planner::Plan& plan);

}  // namespace trireme::tools
