#include "planner/shell/token_stream.h"

#include <algorithm>
#include <string>

namespace trireme::planner {

void TokenStream::put_in(std::vector<ShellToken> more, int line, std::string_view end) {
  const ShellToken new_line{ShellToken::Kind::kNewline, "\n", line, false};
  more.insert(more.begin(), new_line);
  more.push_back(new_line);
  if (!end.empty()) {
    more.push_back(ShellToken{ShellToken::Kind::kWord, std::string(end), line, false});
    more.push_back(new_line);
  }
  at = std::min(at, tokens.size());  // a command that ends with its script may leave it behind
  tokens.insert(tokens.begin() + static_cast<std::ptrdiff_t>(at), more.begin(), more.end());
}

}  // namespace trireme::planner
