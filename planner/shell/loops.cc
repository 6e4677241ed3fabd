#include "planner/shell/loops.h"

#include <algorithm>

#include "planner/shell/built_in.h"
#include "planner/shell/names.h"
#include "planner/shell/options.h"

namespace trireme::planner {
namespace {

using Kind = ShellToken::Kind;

ShellToken own_word(std::string_view text, int line) {
  return {Kind::kWord, std::string(text), line, false};
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

bool puts_arguments(const std::vector<ShellToken>& body) {
  bool starts = true;  // a command
  bool elsewhere = false;
  for (const ShellToken& token : body) {
    const std::string& text = token.text;
    if (token.kind != Kind::kWord) {
      starts = true;
      continue;
    }
    elsewhere = starts ? text == "ssh" || text == "ray" : elsewhere;
    starts = text == "then" || text == "do" || text == "else";
    const bool flags = text.starts_with("--") || text.find("=--") != std::string::npos ||
                       text.find(" --") != std::string::npos ||
                       text.find("\"--") != std::string::npos ||
                       text.find("ARGS") != std::string::npos;
    // what other hosts are told is no argument here, unless they are told to train
    if (text.find(".py") != std::string::npos || (flags && !elsewhere)) {
      return true;
    }
  }
  return false;
}

bool read_loop_values(TokenStream& stream, ShellVariables& variables, LoopRounds& rounds) {
  std::vector<ShellToken> head;
  for (; !stream.done() && stream.next().kind == Kind::kWord && stream.next().text != "do";
       ++stream.at) {
    head.push_back(stream.next());
  }
  if (head.empty() || !is_shell_name(head[0].text) || (head.size() > 1 && head[1].text != "in")) {
    return false;
  }
  rounds.variable = head[0].text;
  if (head.size() == 1) {
    rounds.known = words_are_known(variables);
    rounds.values = variables.positional.value_or(std::vector<ShellText>());
    rounds.takes_options = words_are_open(variables);
    variables.uses_words |= variables.calls == 0;
  }
  for (std::size_t i = 2; i < head.size(); ++i) {
    const std::size_t noted = variables.unset_words.size();
    ShellText whole;
    const auto more = expand_and_split(variables, head[i].text, head[i].line, whole);
    variables.unset_words.resize(noted);  // no arguments of a command
    rounds.known = rounds.known && !whole.outside && !whole.lost;
    rounds.takes_options |= words_are_open(variables) && names_all_words(head[i].text);
    rounds.values.insert(rounds.values.end(), more.begin(), more.end());
  }
  return true;
}

std::vector<ShellToken> for_round(std::vector<ShellToken> body, int line) {
  const ShellToken new_line{Kind::kNewline, "\n", line, false};
  body.insert(body.begin(), {own_word(kBody, line), new_line});
  body.push_back(new_line);
  body.push_back(own_word(kRound, line));
  return body;
}

std::pair<std::vector<ShellToken>, std::size_t> while_round(const std::vector<ShellToken>& tokens,
                                                            std::size_t at, bool until) {
  std::size_t body = at;
  while (body < tokens.size() && !is_word(tokens[body], "do")) {
    ++body;
  }
  const auto [begin, end] = loop_body(tokens, body);
  if (begin == end) {
    return {};
  }
  const auto place = [&](std::size_t index) {
    return tokens.begin() + static_cast<std::ptrdiff_t>(index);
  };
  const int line = tokens[at].line;
  const ShellToken new_line{Kind::kNewline, "\n", line, false};
  std::vector<ShellToken> round = {own_word(until ? kUntil : kWhile, line)};
  round.insert(round.end(), place(at), place(body));
  round.push_back(own_word("then", line));
  round.insert(round.end(), place(begin), place(end));
  round.push_back(new_line);
  round.push_back(own_word(kRound, line));
  return {round, end + 1};
}

LoopRounds counted_loop(const std::string& head, int line, ShellVariables& variables) {
  LoopRounds rounds;
  rounds.line = line;
  const std::string inside = head.substr(2, head.size() - 4);
  const std::size_t first = std::min(inside.find(';'), inside.size());
  const std::size_t second = std::min(inside.find(';', first + 1), inside.size());
  raw_arithmetic(variables, inside.substr(0, first), line);
  if (second < inside.size()) {
    rounds.condition = inside.substr(first + 1, second - first - 1);
    rounds.step = inside.substr(second + 1);
  }
  return rounds;
}

bool next_round(LoopRounds& rounds, ShellVariables& variables) {
  if (!rounds.variable.empty()) {
    if (rounds.values.empty()) {
      return false;
    }
    variables.known[rounds.variable] = ShellVariable{{rounds.values.front()}, false};
    rounds.values.erase(rounds.values.begin());
    return true;
  }
  if (rounds.taken > 0) {
    raw_arithmetic(variables, rounds.step, rounds.line);
  }
  const auto value = raw_arithmetic(variables, rounds.condition, rounds.line);
  rounds.known = rounds.known && value.has_value();
  return value.value_or(0) != 0;
}

}  // namespace trireme::planner
