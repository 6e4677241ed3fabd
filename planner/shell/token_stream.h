// The tokens of a script and where its reader stands: what a function, a sourced file or a round of
// a loop holds is put in before the next.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "planner/shell/tokens.h"

namespace trireme::planner {

struct TokenStream {
  std::vector<ShellToken> tokens;
  std::size_t at = 0;

  [[nodiscard]] bool done() const { return at >= tokens.size(); }
  [[nodiscard]] const ShellToken& next() const { return tokens[at]; }
  [[nodiscard]] bool is_operator(std::size_t index, std::string_view text) const {
    return index < tokens.size() && tokens[index].kind == ShellToken::Kind::kOperator &&
           tokens[index].text == text;
  }
  // Tokens that come next, on lines of their own, with the word `end` behind them unless empty.
  void put_in(std::vector<ShellToken> more, int line, std::string_view end = "");
};

}  // namespace trireme::planner
