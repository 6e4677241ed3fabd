// A shell script cut into words and operators, as bash's manual (Shell Syntax) defines them. Quotes
// and `$` stay in the words; planner/shell/script.h expands them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::planner {

inline constexpr std::size_t kNotFound = std::string_view::npos;  // of a search that finds nothing

inline bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

struct ShellToken {
  enum class Kind : std::uint8_t { kWord, kOperator, kNewline } kind = Kind::kWord;
  std::string text;
  int line = 0;
  bool glued = false;  // nothing stands between it and the token before
};

inline bool is_word(const ShellToken& token, std::string_view text) {
  return token.kind == ShellToken::Kind::kWord && token.text == text;
}
inline bool has_word(const std::vector<ShellToken>& tokens, std::string_view text) {
  return std::any_of(tokens.begin(), tokens.end(),
                     [&](const ShellToken& token) { return is_word(token, text); });
}

// Comments are left out; the text of a here-document is one quoted word behind its `<<`. `lines`:
// of each character, where the text is a part of another. Throws Error (FILE:LINE) on a quote or
// bracket that does not close.
std::vector<ShellToken> shell_tokens(std::string_view text, const std::string& source,
                                     const std::vector<int>& lines = {});

// The index after the quote that closes the one at `open`; npos when it does not close.
std::size_t after_quote(std::string_view text, std::size_t open);
// The same of the quote behind the `$` at `open`: $'…', where \' closes nothing, and $"…".
std::size_t after_dollar_quote(std::string_view text, std::size_t open);
// The index after the bracket that closes the one at `open`, quotes and nested brackets skipped;
// npos when it does not close.
std::size_t after_bracket(std::string_view text, std::size_t open);

}  // namespace trireme::planner
