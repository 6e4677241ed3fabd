// Words of a shell script with their `$` worked out: variables, defaults, arrays, arithmetic. Every
// character keeps the line it was written in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::planner {

// Text whose characters know their line and whether quotes protect them from being split.
struct ShellText {
  std::string text;
  std::vector<int> lines;
  std::vector<bool> quoted;
  bool outside = false;  // part of it comes from outside the file: $1, $(…)
};

struct ShellVariable {
  std::vector<ShellText> values;
  bool array = false;
};

// A variable that the file never sets and that stands as a whole word: arguments may be missing.
struct UnsetWord {
  std::string name;
  int line = 0;
  std::string after;  // the word before it
};

struct ShellVariables {
  std::string source;
  std::map<std::string, ShellVariable, std::less<>> known;
  std::set<std::string, std::less<>> unset;  // read, but never set in the file
  std::vector<UnsetWord> unset_words = {};   // in order
  std::size_t expanded = 0;  // characters so far, against files that double a variable for ever
};

// The value of a raw word; nothing is split. Throws Error (FILE:LINE): division by zero, a value
// without end.
ShellText expand(ShellVariables& variables, std::string_view raw, int line);
// The words that a raw word becomes, as bash splits them.
std::vector<ShellText> expand_and_split(ShellVariables& variables, std::string_view raw, int line);
// As above; a variable without a value is noted with the last of the words `before` it.
std::vector<ShellText> expand_and_split(ShellVariables& variables, std::string_view raw, int line,
                                        const std::vector<ShellText>& before);
std::vector<ShellText> split(const ShellText& text);

// Whole-number arithmetic of $(( )): + - * / % and brackets, names of variables. Nothing when the
// expression uses something else or a variable without a number. Throws Error as above.
std::optional<std::int64_t> shell_arithmetic(const ShellVariables& variables,
                                             std::string_view expression, int line);

}  // namespace trireme::planner
