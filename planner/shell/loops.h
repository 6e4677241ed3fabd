// Loops whose rounds are read one after the other: those that add up a variable, as the list of
// layers that have experts, read files, or look at the script's words. Any other loop is read once.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "planner/shell/token_stream.h"
#include "planner/shell/value.h"

namespace trireme::planner {

struct LoopRounds {
  std::string variable;                // of `for NAME in …`; empty: of `for ((…))`
  std::vector<ShellText> values = {};  // that it has yet to take
  std::string condition = {}, step = {};
  std::vector<ShellToken> body = {};
  int line = 0;
};

// The indices of the body's first token and of its `done`, for a loop whose head ends before `at`;
// two equal ones where none is.
std::pair<std::size_t, std::size_t> loop_body(const std::vector<ShellToken>& tokens,
                                              std::size_t at);
// The words of `NAME in a b`; false: none, or not of that form.
bool read_loop_values(TokenStream& stream, ShellVariables& variables, LoopRounds& rounds);
// Of `while CONDITION; do BODY; done` whose body shifts the script's words, after `while`: the
// tokens of one round (`if CONDITION; then BODY; AGAIN; fi`) and the index behind the loop. Empty:
// another loop.
std::pair<std::vector<ShellToken>, std::size_t> loop_over_words(
    const std::vector<ShellToken>& tokens, std::size_t at, std::string_view again);
// Whether a body adds to a variable, chooses by the loop's own or reads files, and neither starts
// anything nor leaves the loop.
bool adds_up(const std::vector<ShellToken>& body);
// `for ((FIRST; CONDITION; STEP))`: does what comes first.
LoopRounds counted_loop(const std::string& head, int line, ShellVariables& variables);
// Takes the next value, or works out whether another round comes; false: none, or not known.
bool next_round(LoopRounds& rounds, ShellVariables& variables);
// Does the step behind a round of `for ((…))`.
void end_round(const LoopRounds& rounds, ShellVariables& variables);

}  // namespace trireme::planner
