// Text of people (names of models, clusters and files) as each syntax of the exported files reads
// it: nothing in a name leaves its quotes or its comment.
#pragma once

#include <string>
#include <string_view>

namespace trireme::planner {

// What a comment and a terminal may show: control characters, the other line ends of Unicode,
// marks that turn the writing direction and bytes that are no UTF-8 stand as \x0a, \u2028.
std::string printable(std::string_view text);

// One word of a POSIX shell; in single quotes where a character would mean something to it.
std::string shell_word(std::string_view text);

// A string in double quotes whose escapes TOML, YAML, Python and JSON read alike.
std::string quoted(std::string_view text);

}  // namespace trireme::planner
