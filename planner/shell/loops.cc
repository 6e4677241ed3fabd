#include "planner/shell/loops.h"

#include <algorithm>

#include "planner/shell/built_in.h"
#include "planner/shell/names.h"

namespace trireme::planner {
namespace {

using Kind = ShellToken::Kind;

// NAME+=value, or NAME="$NAME value".
bool adds_to_itself(const std::string& word) {
  const std::string name(assigned_name(word));
  const std::size_t equals = word.find('=');
  return !name.empty() &&
         (word[equals - 1] == '+' || word.find('$' + name, equals) != std::string::npos ||
          word.find("${" + name, equals) != std::string::npos);
}

}  // namespace

std::pair<std::size_t, std::size_t> loop_body(const std::vector<ShellToken>& tokens,
                                              std::size_t at) {
  while (at < tokens.size() && (tokens[at].kind == Kind::kNewline || tokens[at].text == ";")) {
    ++at;
  }
  if (at >= tokens.size() || !is_word(tokens[at], "do")) {
    return {at, at};
  }
  const std::size_t begin = ++at;
  for (int depth = 1; at < tokens.size(); ++at) {
    depth += is_word(tokens[at], "do") ? 1 : 0;
    depth -= is_word(tokens[at], "done") ? 1 : 0;
    if (depth == 0) {
      return {begin, at};
    }
  }
  return {at, at};
}

bool adds_up(const std::vector<ShellToken>& body) {
  bool adds = false;
  for (const ShellToken& token : body) {
    const std::string& text = token.text;
    if (text.starts_with("--") || text.find(".py") != std::string::npos || text == "break" ||
        text == "continue" || text == "exit" || text == "return") {
      return false;
    }
    adds |= token.kind == Kind::kWord && adds_to_itself(text);
  }
  return adds;
}

LoopRounds counted_loop(const std::string& head, int line, ShellVariables& variables) {
  LoopRounds rounds;
  rounds.line = line;
  const std::string inside = head.substr(2, head.size() - 4);
  const std::size_t first = std::min(inside.find(';'), inside.size());
  const std::size_t second = std::min(inside.find(';', first + 1), inside.size());
  arithmetic_statement(inside.substr(0, first), line, variables);
  if (second < inside.size()) {
    rounds.condition = inside.substr(first + 1, second - first - 1);
    rounds.step = inside.substr(second + 1);
  }
  return rounds;
}

bool next_round(LoopRounds& rounds, ShellVariables& variables) {
  if (rounds.variable.empty()) {
    const ShellText text = expand(variables, rounds.condition, rounds.line);
    return !text.lost && arithmetic_statement(text.text, rounds.line, variables).value_or(0) != 0;
  }
  if (rounds.values.empty()) {
    return false;
  }
  variables.known[rounds.variable] = ShellVariable{{rounds.values.front()}, false};
  rounds.values.erase(rounds.values.begin());
  return true;
}

void end_round(const LoopRounds& rounds, ShellVariables& variables) {
  if (rounds.variable.empty()) {
    arithmetic_statement(rounds.step, rounds.line, variables);
  }
}

}  // namespace trireme::planner
