// What echo, printf, tr, sed and their kin print, as far as launch scripts use them. Nothing is run
// and no file is looked at.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trireme::planner {

// The output of one command of a pipeline; `first`: it reads no input. Nothing for a command, or an
// option of one, that is none of these.
std::optional<std::string> output_of_command(const std::vector<std::string>& words,
                                             const std::string& input, bool first);

}  // namespace trireme::planner
