// One word of a script with its `$`, quotes and brackets worked out (bash manual, Shell
// Expansions).
#pragma once

#include <string_view>

#include "planner/shell/parameter.h"
#include "planner/shell/value.h"

namespace trireme::planner {

// What is taken in grows no further than a limit, so that a script that doubles a variable for ever
// ends with an Error.
class Expander {
 public:
  explicit Expander(ShellVariables& variables) : variables_(variables) {}

  // The value of a raw word; Error as expand().
  ShellText run(std::string_view raw, int line, bool in_quotes = false);
  // The same with kEmptyWord where an empty word stands, for split().
  ShellText run_marked(std::string_view raw, int line);

 private:
  void walk(std::string_view raw, int line, bool in_quotes, ShellText& out);
  // Takes what stands at `i`; returns where the next part begins.
  std::size_t step(std::string_view raw, std::size_t i, int& line, bool in_quotes, ShellText& out);
  std::size_t double_quotes(std::string_view raw, std::size_t i, int& line, ShellText& out);
  // As below; a variable without a value that is a word of its own is noted.
  std::size_t dollar(std::string_view raw, std::size_t i, int line, bool in_quotes, ShellText& out);
  std::size_t take_dollar(std::string_view raw, std::size_t i, int line, bool in_quotes,
                          ShellText& out);
  void number(std::int64_t value, int line, bool in_quotes, ShellText& out);
  // $1, $@, $#, $0; the state of processes is outside the file.
  void special(std::string_view name, int line, bool in_quotes, ShellText& out);
  static std::int64_t number_in(std::string_view digits);
  void joined(const std::vector<ShellText>& values, std::size_t first, int line, bool in_quotes,
              ShellText& out, char between = ' ');
  // $((…)) and the commands of planner/shell/substitution.h are worked out; any other is outside.
  void substitution(std::string_view inside, int line, bool in_quotes, ShellText& out);
  // $((…)) and $[…]
  void calculated(std::string_view raw, int line, bool in_quotes, ShellText& out);
  // $'…' with \n, \t, \' and their kin.
  static void escaped(std::string_view inside, int line, ShellText& out);
  // ${NAME}, ${NAME[@]}, ${#NAME}, ${!NAME}, ${NAME:-default} and its relatives; what a form that
  // is none of these gives is not known.
  void braces(std::string_view inside, int line, bool in_quotes, ShellText& out);
  void counted(const BraceForm& form, int line, bool in_quotes, ShellText& out);
  // ${!NAME}: the variable that NAME holds the name of; ${!NAME[@]}: the numbers of its elements.
  void indirect(const BraceForm& form, int line, bool in_quotes, ShellText& out);
  // True: $1, … of which nothing is known, which is settled here.
  bool open_positional(const BraceForm& form, int line, bool in_quotes, ShellText& out);
  // The texts that a form names: one, or with @ and * all of them. Nothing where that is not known.
  std::optional<std::vector<ShellText>> values_of(const BraceForm& form, int line, bool& separate);
  // Those that ${…:OFFSET:LENGTH} keeps; nothing where the numbers are not known.
  std::optional<std::vector<ShellText>> slice(std::vector<ShellText> values, const BraceForm& form,
                                              int line);
  void unknown(std::string_view name, ShellText& out);
  void alternative(const BraceForm& form, bool assigns, int line, bool in_quotes, ShellText& out);
  [[nodiscard]] bool is_set(const BraceForm& form, int line);
  void value(std::string_view name, std::string_view index, int line, bool in_quotes,
             ShellText& out);
  void all_values(const std::vector<ShellText>& values, bool star, int line, bool in_quotes,
                  ShellText& out);
  void append(const ShellText& from, bool in_quotes, ShellText& out);

  ShellVariables& variables_;
  std::string_view missing_;  // the variable that the last $ named, where it has no value
  bool missing_command_ = false;
};

}  // namespace trireme::planner
