// ${NAME%suffix}, ${NAME/from/to} and their kin: a variable's value, changed (bash manual, Shell
// Parameter Expansion).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trireme::planner {

// `operation` is the first character after the name: % # / ^ , or : (with an offset and a length).
// `rest` is what follows it, worked out. Nothing for an operation that is none of these.
std::optional<std::string> edited_value(const std::string& value, char operation,
                                        std::string_view rest);

}  // namespace trireme::planner
