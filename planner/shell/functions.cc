#include "planner/shell/functions.h"

namespace trireme::planner {
namespace {

using Kind = ShellToken::Kind;

}  // namespace

std::pair<std::size_t, std::size_t> function_body(const std::vector<ShellToken>& tokens,
                                                  std::size_t at) {
  while (at < tokens.size() && tokens[at].kind == Kind::kNewline) {
    ++at;
  }
  if (at >= tokens.size() || !is_word(tokens[at], "{")) {
    return {at, at};
  }
  std::size_t end = at;
  for (int depth = 0; end < tokens.size(); ++end) {
    depth += is_word(tokens[end], "{") ? 1 : 0;
    depth -= is_word(tokens[end], "}") ? 1 : 0;
    if (depth == 0) {
      break;
    }
  }
  return {at, end};
}

bool is_called_after(const std::vector<ShellToken>& tokens, std::size_t end,
                     std::string_view name) {
  for (std::size_t i = end + 1; i < tokens.size(); ++i) {
    const bool defines =
        tokens[i - 1].text == "function" ||
        (i + 1 < tokens.size() && tokens[i + 1].text == "(" && tokens[i + 1].glued);
    if (is_word(tokens[i], name) && !defines) {
      return true;
    }
  }
  return false;
}

}  // namespace trireme::planner
