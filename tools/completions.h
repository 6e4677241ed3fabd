// What a shell proposes after TAB: commands, their options, and the values that can be counted.
#pragma once

#include <string>
#include <vector>

#include "tools/command_tree.h"

namespace trireme::tools {

// The whole script of one shell.
std::string bash_completions(const std::vector<CommandPage>& pages);
std::string zsh_completions(const std::vector<CommandPage>& pages);
std::string fish_completions(const std::vector<CommandPage>& pages);

}  // namespace trireme::tools
