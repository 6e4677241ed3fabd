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
  constexpr std::string_view kLeaves[] = {"break", "continue", "exit", "return"};
  constexpr std::string_view kStarts[] = {"sbatch", "srun", "bash", "sh", "qsub", "nohup", "ssh"};
  const auto is_one_of = [](const auto& list, const std::string& text) {
    return std::find(std::begin(list), std::end(list), text) != std::end(list);
  };
  bool adds = false;
  bool starts = false;
  for (const ShellToken& token : body) {
    const std::string& text = token.text;
    if (text.starts_with("--") || text.find(".py") != std::string::npos ||
        is_one_of(kLeaves, text)) {
      return false;
    }
    starts |= is_one_of(kStarts, text);
    adds |= token.kind == Kind::kWord && adds_to_itself(text);
  }
  const bool chooses = std::any_of(body.begin(), body.end(), [](const ShellToken& token) {
    return is_word(token, "source") || is_word(token, ".") || is_word(token, "case");
  });
  return adds || (chooses && !starts);
}

bool read_loop_values(TokenStream& stream, ShellVariables& variables, LoopRounds& rounds) {
  std::vector<ShellText> words;
  while (!stream.done() && stream.next().kind == Kind::kWord && stream.next().text != "do") {
    const ShellToken& token = stream.next();
    const auto more = expand_and_split(variables, token.text, token.line);
    words.insert(words.end(), more.begin(), more.end());
    ++stream.at;
  }
  if (words.size() < 3 || words[1].text != "in") {
    return false;
  }
  rounds.variable = words[0].text;
  rounds.values.assign(words.begin() + 2, words.end());
  return true;
}

std::pair<std::vector<ShellToken>, std::size_t> loop_over_words(
    const std::vector<ShellToken>& tokens, std::size_t at, std::string_view again) {
  std::size_t body = at;
  while (body < tokens.size() && !is_word(tokens[body], "do")) {
    ++body;
  }
  const auto [begin, end] = loop_body(tokens, body);
  const auto place = [&](std::size_t index) {
    return tokens.begin() + static_cast<std::ptrdiff_t>(index);
  };
  if (begin == end || std::none_of(place(begin), place(end), [](const ShellToken& token) {
        return is_word(token, "shift");
      })) {
    return {};
  }
  const int line = tokens[at].line;
  const auto word = [&](std::string_view text) {
    return ShellToken{Kind::kWord, std::string(text), line, false};
  };
  const ShellToken new_line{Kind::kNewline, "\n", line, false};
  std::vector<ShellToken> round = {word("if")};
  round.insert(round.end(), place(at), place(body));
  round.push_back(word("then"));
  round.insert(round.end(), place(begin), place(end));
  for (const ShellToken& token : {new_line, word(again), new_line, word("fi")}) {
    round.push_back(token);
  }
  return {round, end + 1};
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
