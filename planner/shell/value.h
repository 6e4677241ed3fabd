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
  bool outside = false;     // part of it comes from outside the file: $1, $(…)
  bool open_after = false;  // a word of which nothing is known stands after it
  bool lost = false;        // a part of it is not known and left out
};
inline int first_line(const ShellText& word) {
  return word.lines.empty() ? 0 : word.lines.front();
}

// Stands, unprotected, where "${NAME[@]}" has an empty element: a word although nothing is in it.
constexpr char kEmptyWord = '\x01';

struct ShellVariable {
  std::vector<ShellText> values;
  bool array = false;
  std::vector<std::string> keys = {};     // of an associative array's values
  std::vector<std::int64_t> places = {};  // of a numbered array's, where some are missing
  bool associative = false;               // declare -A
  bool integer = false;                   // declare -i: what it is assigned is arithmetic
  bool constant = false;                  // readonly
};

// A variable that the file never sets, or a command's output, that stands as a whole word:
// arguments may be missing.
struct UnsetWord {
  std::string name;
  int line = 0;
  std::string after;     // the word before it, or its own beginning: "KEY="
  bool command = false;  // the output of a command that only a run would tell
};

// Lines of the n-th file that is read count from n times this on; the script itself is file 0.
constexpr int kLinesOfFile = 10'000'000;

using ShellValues = std::map<std::string, ShellVariable, std::less<>>;

struct ShellVariables {
  std::string source;
  ShellValues known;
  std::set<std::string, std::less<>> unset;  // read, but never set in the file
  std::vector<UnsetWord> unset_words = {};   // in order
  // $1, $2, …: the words after the script's name; nothing where they are not said.
  std::optional<std::vector<ShellText>> positional = {};
  std::optional<ShellText> named = {};  // $0 of `bash -c TEXT NAME`; nothing: the file's name
  bool uses_words = false;              // the script looks at them
  bool in_function = false;             // $1 is a function's own there, and not known
  int calls = 0;                        // of functions, that are open: $1 is their own, and known
  // What local variables of those calls hide; nothing: a name without a value.
  std::vector<std::map<std::string, std::optional<ShellVariable>>> hidden = {};
  std::vector<std::string> files = {};                           // those that were read by `source`
  std::map<std::string, std::string, std::less<>> written = {};  // cat > NAME <<EOF: their text
  std::size_t option_letters = 0;  // that getopts took of the word at OPTIND
  int substitutions = 0;           // that are open, against scripts that nest them for ever
  int depth = 0;             // of brackets within brackets, against files that nest them for ever
  std::size_t expanded = 0;  // characters so far, against files that double a variable for ever
  std::size_t copied = 0;    // of copy_of_values, against files that open subshells for ever
  std::set<std::string, std::less<>> exported = {};  // what another script of theirs sees
};
// Whether it is said which words $1, $2, … are: those of the script, of which a function has
// others.
inline bool words_are_known(const ShellVariables& variables) {
  return variables.positional && !variables.in_function;
}

// What stands when a subshell opens. Throws Error where the copies of a script have no end.
ShellValues copy_of_values(ShellVariables& variables);

// The value of a raw word; nothing is split. Throws Error (FILE:LINE): division by zero, a value
// without end.
ShellText expand(ShellVariables& variables, std::string_view raw, int line);
// The words that a raw word becomes, as bash splits them.
std::vector<ShellText> expand_and_split(ShellVariables& variables, std::string_view raw, int line);
// As above; `whole` says whether a part of it is not known.
std::vector<ShellText> expand_and_split(ShellVariables& variables, std::string_view raw, int line,
                                        ShellText& whole);
// As above; a variable without a value is noted with the last of the words `before` it.
std::vector<ShellText> expand_and_split(ShellVariables& variables, std::string_view raw, int line,
                                        const std::vector<ShellText>& before, ShellText& whole);
std::vector<ShellText> split(const ShellText& text);
void put_character(ShellText& text, char c, int line, bool quoted);
// Its characters from `begin` up to `end`.
ShellText part_of_text(const ShellText& text, std::size_t begin, std::size_t end);
// The file that a line is of.
const std::string& file_of(const ShellVariables& variables, int line);
// Text of one line, nothing of it protected.
ShellText plain_text(const std::string& text, int line);
// "FILE:LINE" of a line that may be of another file than the script.
std::string place_of(const ShellVariables& variables, int line);

// Whole-number arithmetic of $(( )), its `$` worked out; assignments in it hold. Nothing when it is
// none, or rests on what is not known. Throws Error as above.
std::optional<std::int64_t> shell_arithmetic(ShellVariables& variables, std::string_view expression,
                                             int line);
// The same of a text as it is written.
std::optional<std::int64_t> raw_arithmetic(ShellVariables& variables, std::string_view raw,
                                           int line);

// The words from the n-th on, with blanks between them.
std::string words_after(const std::vector<ShellText>& words, std::size_t first);

// Part of a command that starts a training, or a line of bare arguments.
bool holds_arguments(const ShellText& word);

}  // namespace trireme::planner
