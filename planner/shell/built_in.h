// Commands of the shell that change a script's own variables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/shell/value.h"

namespace trireme::planner {

// What declare, local, readonly and export say of the names behind them.
struct Attributes {
  bool integer = false, array = false, associative = false, constant = false;
  bool local = false;  // of the function that is being called
};

// NAME=value, NAME+=value, NAME[KEY]=value or NAME=( … ).
struct Assignment {
  std::string name;
  ShellText key = {};  // of an element, its `$` worked out
  ShellVariable value = {};
  bool has_key = false;
  bool adds = false;
  bool undecided = false;  // the file does not say whether it runs
  Attributes attributes = {};
};
// Returns whether it was kept: what an undecided branch takes from outside leaves the value that
// stands (`--tp) TP=$2`: it holds unless the command line changes it).
bool assign(Assignment given, ShellVariables& variables);

// Whether assignments are exported from here on: set -a and set -o allexport begin it, + ends it.
bool exports_assignments(const std::vector<ShellText>& words, bool before);

// shift [N]: the first of the script's words are gone.
void shift_words(const std::vector<ShellText>& words, ShellVariables& variables);

// declare -i NAME: a name with attributes and without a value.
void declare(const std::string& name, const Attributes& attributes, ShellVariables& variables);
// The variables of a call that ends are those of its caller again.
void leave_call(ShellVariables& variables);

// let A=B*2: whole-number arithmetic; a value that is not known comes from outside.
void let_variables(const std::vector<ShellText>& words, ShellVariables& variables);

// unset NAME, NAME[KEY], …
void unset_variables(const std::vector<ShellText>& words, ShellVariables& variables);

// printf -v NAME FORMAT …
void print_into_variable(const std::vector<ShellText>& words, ShellVariables& variables);

// read, mapfile, readarray: they take their input into variables.
bool reads_input(std::string_view command);

// read -r A B <<< INPUT: cut at any of `separators`; the last name takes what is left. With -a the
// name is an array of all parts; mapfile and readarray make one of the lines.
void read_into_variables(const std::vector<ShellText>& words, const ShellText& input,
                         const std::string& separators, ShellVariables& variables);

// What of the above a command does, with `set -- …` and getopts; `assigned`: names set for it
// alone; `last`: whether it succeeds, where that is more than it says itself. False: it is none of
// them.
bool changes_variables(const std::vector<ShellText>& words, const std::optional<ShellText>& input,
                       const std::vector<std::string>& assigned, ShellVariables& variables,
                       std::optional<bool>& last);

}  // namespace trireme::planner
