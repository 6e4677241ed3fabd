// The options that a script takes from its words: loops that look for them, and getopts.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "planner/shell/token_stream.h"
#include "planner/shell/value.h"

namespace trireme::planner {

// Whether a raw word stands for all words that whoever starts the script gives: "$@", ${@:2}, $*.
bool names_all_words(std::string_view raw);
// Nobody says which words the script, or the function that is called with them, is given.
bool words_are_open(const ShellVariables& variables);
// Whether a round of `while` is over options: it asks for the first word and shifts it away, or
// asks getopts, and starts nothing itself. Without words none is given.
bool shifts_options(const std::vector<ShellToken>& round);
// The same of a `for` over all words, which compares them with options.
bool looks_for_options(const std::vector<ShellToken>& body);

// getopts STRING NAME [WORDS]: the next option into NAME, its argument into OPTARG (bash manual,
// Bourne Shell Builtins). Whether there was one; nothing where the words are not said.
std::optional<bool> take_option(const std::vector<ShellText>& words, ShellVariables& variables);

}  // namespace trireme::planner
