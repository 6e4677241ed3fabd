#include "planner/shell/cases.h"

#include <utility>

#include "planner/shell/condition.h"

namespace trireme::planner {
namespace {

using Kind = ShellToken::Kind;

}  // namespace

Frame read_case(TokenStream& stream, ShellVariables& variables) {
  Frame frame{.kind = Frame::Kind::kCase, .condition = true, .active = false};
  if (!stream.done() && stream.next().kind == Kind::kWord) {
    const std::size_t noted = variables.unset_words.size();
    frame.subject = expand(variables, stream.next().text, stream.next().line);
    variables.unset_words.resize(noted);  // no argument of a command
    ++stream.at;
  }
  while (!stream.done() && (stream.next().kind == Kind::kNewline || stream.next().text == "in")) {
    ++stream.at;
  }
  return frame;
}

bool read_case_pattern(TokenStream& stream, Branches& branches, ShellVariables& variables) {
  if (branches.empty() || branches.top().kind != Frame::Kind::kCase || !branches.top().condition) {
    return false;
  }
  const ShellToken& token = stream.next();
  if (token.kind == Kind::kNewline || stream.is_operator(stream.at, "(") ||
      stream.is_operator(stream.at, ";;")) {
    ++stream.at;
    return true;
  }
  if (token.text == "esac") {
    return false;
  }
  Frame& frame = branches.top();
  bool matches = std::exchange(frame.falls, false);
  const int line = token.line;
  frame.question = frame.subject.text;
  while (!stream.done() && !stream.is_operator(stream.at, ")")) {
    if (stream.next().kind == Kind::kWord) {
      const ShellText pattern = expand(variables, stream.next().text, line);
      matches |= matches_pattern(frame.subject.text, pattern);
      frame.question += (frame.question.empty() ? "" : " or ") + stream.next().text;
    }
    ++stream.at;
  }
  ++stream.at;
  frame.condition = false;
  branches.settle(frame.subject.outside ? std::nullopt : std::optional(matches), line);
  return true;
}

}  // namespace trireme::planner
