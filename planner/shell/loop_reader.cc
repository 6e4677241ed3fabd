#include "planner/shell/loop_reader.h"

#include <algorithm>

#include "planner/shell/arrays.h"
#include "planner/shell/options.h"

namespace trireme::planner {
namespace {

using Kind = ShellToken::Kind;

constexpr std::size_t kTokensMost = 100'000;  // of all rounds
constexpr int kRoundsMost = 2'000;

bool same_values(const ShellVariable& a, const ShellVariable& b) {
  return std::equal(
      a.values.begin(), a.values.end(), b.values.begin(), b.values.end(),
      [](const ShellText& one, const ShellText& other) { return one.text == other.text; });
}

}  // namespace

bool LoopReader::open_for() {
  const int line = stream_.tokens[stream_.at - 1].line;
  if (!branches_.active()) {
    return false;
  }
  LoopRounds rounds;
  if (!stream_.done() && stream_.next().text.starts_with("((")) {
    const std::string head = stream_.next().text;
    ++stream_.at;
    rounds = counted_loop(head, line, script_.variables);
  } else if (!read_loop_values(stream_, script_.variables, rounds)) {
    return false;
  }
  const auto [begin, end] = loop_body(stream_.tokens, stream_.at);
  if (begin == end) {
    return false;
  }
  const auto place = [&](std::size_t index) {
    return stream_.tokens.begin() + static_cast<std::ptrdiff_t>(index);
  };
  rounds.line = line;
  rounds.round = for_round({place(begin), place(end)}, line);
  rounds.takes_options = rounds.takes_options && looks_for_options(rounds.round);
  stream_.at = end + 1;
  start(std::move(rounds));
  return true;
}

bool LoopReader::open_while(bool until) {
  if (!branches_.active()) {
    return false;
  }
  auto [round, end] = while_round(stream_.tokens, stream_.at, until);
  if (round.empty()) {
    return false;
  }
  LoopRounds rounds{.round = std::move(round), .line = stream_.tokens[stream_.at - 1].line};
  rounds.takes_options = words_are_open(script_.variables) && shifts_options(rounds.round);
  script_.variables.uses_words |= rounds.takes_options;
  stream_.at = end;
  start(std::move(rounds));
  return true;
}

std::string LoopReader::round() const {
  std::string values;
  for (const LoopRounds& rounds : loops_) {
    const auto found = script_.variables.known.find(rounds.variable);
    if (rounds.variable.empty() || found == script_.variables.known.end()) {
      values += (values.empty() ? "round " : ", round ") + std::to_string(rounds.taken);
    } else if (!found->second.values.empty()) {
      values +=
          (values.empty() ? "" : ", ") + rounds.variable + "=" + found->second.values.front().text;
    }
  }
  return values;
}

void LoopReader::start(LoopRounds rounds) {
  if (rounds.takes_options) {
    ShellLoop& loop = script_.loops.emplace_back();
    loop.line = rounds.line;
    loop.takes_options = true;
    return;
  }
  rounds.frames = branches_.depth();
  loops_.push_back(std::move(rounds));
  next();
}

void LoopReader::next() {
  LoopRounds& rounds = loops_.back();
  const bool is_for = !rounds.round.empty() && rounds.round.front().text == kBody;
  put_in_ += rounds.round.size();
  const bool too_many = put_in_ > kTokensMost || rounds.taken >= kRoundsMost;
  const std::string first = rounds.values.empty() ? "" : rounds.values.front().text;
  const std::size_t values = rounds.values.size();
  bool goes_on = !rounds.ends && !too_many;
  if (goes_on && is_for) {
    goes_on = next_round(rounds, script_.variables);
    if (!rounds.known && rounds.taken == 0) {  // read once
      goes_on = rounds.ends = true;
      if (!rounds.variable.empty()) {
        script_.variables.known[rounds.variable] = unknown_variable();
      }
    }
  }
  if (rounds.known && rounds.taken == 0 && values > 1) {
    script_.loops.push_back({rounds.variable, first, rounds.line, false});
  }
  if (!goes_on) {
    rounds.known = rounds.known && !too_many;
    if (!rounds.known) {
      forget_changes(rounds);
    }
    loops_.pop_back();
    return;
  }
  if (rounds.taken++ == 0) {
    rounds.before = script_.variables.known;
  }
  stream_.put_in(rounds.round, rounds.line);
}

void LoopReader::forget_changes(const LoopRounds& rounds) {
  script_.loops.push_back({rounds.variable, "", rounds.line, true});
  script_.loops.back().holds_arguments = puts_arguments(rounds.round);
  if (has_word(rounds.round, "shift")) {  // over words that whoever starts it gives
    script_.loops.back().holds_arguments = false;
    return;
  }
  for (auto& [name, variable] : script_.variables.known) {
    const auto before = rounds.before.find(name);
    if (before == rounds.before.end() || !same_values(before->second, variable)) {
      for (ShellText& value : variable.values) {
        value.outside = value.lost = true;
      }
    }
  }
}

bool LoopReader::own_word(std::string_view word, std::optional<bool>& last) {
  if (word == kBody) {
    branches_.open({.kind = Frame::Kind::kLoop});
    branches_.top().undecided = !loops_.empty() && !loops_.back().known;
  } else if (word == kWhile || word == kUntil) {
    branches_.open({.kind = Frame::Kind::kLoop,
                    .condition = true,
                    .active = false,
                    .negated = word == kUntil});
  } else if (word == kRound) {
    end_round(last);
  } else {
    return false;
  }
  return true;
}

void LoopReader::end_round(std::optional<bool>& last) {
  if (loops_.empty()) {
    return;
  }
  LoopRounds& rounds = loops_.back();
  const bool ran = branches_.depth() > rounds.frames && branches_.top().active;
  const bool sure = branches_.depth() > rounds.frames && !branches_.top().undecided;
  while (branches_.depth() > rounds.frames) {
    branches_.close();
  }
  rounds.known = rounds.known && sure;
  rounds.ends = rounds.ends || !ran || !sure;
  rounds.status = ran ? last : rounds.status;  // not that of the condition that ended it
  last = rounds.known ? rounds.status : std::nullopt;
  next();
}

bool LoopReader::leaves(std::string_view command, std::size_t outside) {
  if ((command != "break" && command != "continue") || loops_.size() <= outside) {
    return false;
  }
  LoopRounds& rounds = loops_.back();
  bool sure = true;
  for (std::size_t depth = rounds.frames; depth < branches_.depth(); ++depth) {
    sure = sure && !branches_.at(depth).undecided;
  }
  rounds.ends = rounds.ends || command == "break";
  rounds.known = rounds.known && sure;
  if (!sure) {
    return true;
  }
  std::size_t at = stream_.at;
  while (at < stream_.tokens.size() && !is_word(stream_.tokens[at], kRound)) {
    ++at;
  }
  while (branches_.depth() > rounds.frames + 1) {
    branches_.close();
  }
  stream_.at = at;
  return true;
}

}  // namespace trireme::planner
