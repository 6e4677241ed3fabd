// Loops, read round by round where the file says which rounds there are, and once where it does
// not.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "planner/shell/token_stream.h"
#include "planner/shell/value.h"

namespace trireme::planner {

// Words of our own between the tokens that a loop puts in.
constexpr std::string_view kBody = "\x01body";    // a round of `for` begins
constexpr std::string_view kWhile = "\x01while";  // the condition of `while`, and of `until`
constexpr std::string_view kUntil = "\x01until";
constexpr std::string_view kRound = "\x01round";  // a round ends

struct LoopRounds {
  std::string variable = {};              // of `for NAME in …`
  std::vector<ShellText> values = {};     // that it has yet to take
  std::string condition = {}, step = {};  // of `for ((…))`
  std::vector<ShellToken> round = {};     // what is read once more
  int line = 0;
  int taken = 0;                      // rounds so far
  bool known = true;                  // the file says which rounds there are
  bool takes_options = false;         // which nobody gave: none of its rounds counts
  bool ends = false;                  // break, or a round that may be the last
  std::size_t frames = 0;             // that are open around it
  std::optional<bool> status = true;  // whether its last round succeeded
  ShellValues before = {};            // what stood before the first round
};

// The indices of the body's first token and of its `done`, for a loop whose head ends before `at`;
// two equal ones where none is.
std::pair<std::size_t, std::size_t> loop_body(const std::vector<ShellToken>& tokens,
                                              std::size_t at);
// The words of `NAME in a b`, or of `NAME` alone, which takes the script's; false: no such loop.
bool read_loop_values(TokenStream& stream, ShellVariables& variables, LoopRounds& rounds);
// Of `while CONDITION; do BODY; done`, after `while` (or `until`): the tokens of one round and the
// index behind the loop. Empty: it does not end.
std::pair<std::vector<ShellToken>, std::size_t> while_round(const std::vector<ShellToken>& tokens,
                                                            std::size_t at, bool until);
// Of a body of `for`: the tokens of one round.
std::vector<ShellToken> for_round(std::vector<ShellToken> body, int line);
// Whether a body puts together what a command is given.
bool puts_arguments(const std::vector<ShellToken>& body);
// `for ((FIRST; CONDITION; STEP))`: does what comes first.
LoopRounds counted_loop(const std::string& head, int line, ShellVariables& variables);
// Takes the next value of a `for`, or works out whether another round comes; false: none, or not
// known.
bool next_round(LoopRounds& rounds, ShellVariables& variables);

}  // namespace trireme::planner
