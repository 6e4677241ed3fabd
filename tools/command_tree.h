// Every command with its options, read once from the parser that the program itself runs: man pages
// and shell completions come from here, as --help does.
#pragma once

#include <string>
#include <vector>

#include "tools/program.h"

namespace trireme::tools {

struct CommandOption {
  std::vector<std::string> names;  // "--output", "-o"; none: a positional argument
  std::string type;                // what a value is called in --help, "FILE"; empty: a flag
  std::string description;
  std::vector<std::string> values;  // those there are, where they can be counted
  bool takes_file = false;
};

struct CommandPage {
  std::vector<std::string> path;  // {"topo", "show"}; empty: the program itself
  std::string description, footer;
  std::vector<CommandOption> options, positionals;
  std::vector<std::string> commands;  // below this one
};

// The program first, then every command in the order of --help, each before those below it.
std::vector<CommandPage> command_pages(const Command& root);

// "trireme topo show" with another word between: page_name(page, '-') is "trireme-topo-show".
std::string page_name(const CommandPage& page, char between);

}  // namespace trireme::tools
