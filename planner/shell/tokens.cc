#include "planner/shell/tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "core/error.h"

namespace trireme::planner {
namespace {

class Lexer {
 public:
  Lexer(std::string_view text, const std::string& source, const std::vector<int>& lines)
      : text_(text), source_(source), lines_(lines) {}

  std::vector<ShellToken> run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool continues = text_.substr(at_).starts_with("\\\n");
      if (continues || text_.substr(at_).starts_with("\\\r\n")) {
        move_to(at_ + (continues ? 2 : 3));
        glued_ = false;
      } else if (is_blank(c)) {
        ++at_;
        glued_ = false;
      } else if (c == '\n') {
        take_newline();
      } else if (c == '#') {
        move_to(std::min(text_.find('\n', at_), text_.size()));
      } else if (!take_arithmetic() && !take_process() && !take_operator()) {
        take_word();
      }
    }
    return std::move(tokens_);
  }

 private:
  void push(ShellToken::Kind kind, std::string text) {
    tokens_.push_back(ShellToken{kind, std::move(text), line_here(), glued_});
    glued_ = true;
  }

  [[nodiscard]] int line_here() const { return at_ < lines_.size() ? lines_[at_] : line_; }

  void move_to(std::size_t end) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    at_ = end;
  }

  void take_newline() {
    push(ShellToken::Kind::kNewline, "\n");
    move_to(at_ + 1);
    glued_ = false;
    for (const HereDocument& document : here_documents_) {
      take_document(document);
    }
    here_documents_.clear();
  }

  struct HereDocument {
    std::string delimiter;
    bool literal = false;   // its delimiter is quoted: nothing in it is expanded
    std::size_t token = 0;  // the word that stands for it
  };

  // Its lines up to the delimiter, as the quoted word that `<<<` would take.
  void take_document(const HereDocument& document) {
    ShellToken& token = tokens_[document.token];
    token.line = line_here();
    std::string body;
    while (at_ < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      const std::string_view line = text_.substr(at_, end - at_);
      std::string bare(line);
      bare.erase(0, std::min(bare.find_first_not_of("\t "), bare.size()));
      move_to(std::min(end + 1, text_.size()));
      if (bare == document.delimiter || bare == document.delimiter + "\r") {
        break;
      }
      body += std::string(line) + "\n";
    }
    const char quote = document.literal ? '\'' : '"';
    token.text = std::string(1, quote);
    for (std::size_t i = 0; i < body.size(); ++i) {
      const bool kept = !document.literal && body.substr(i, 2) == "\\\"";  // \" stays as it is
      token.text += kept               ? "\\\\"
                    : body[i] != quote ? std::string(1, body[i])
                    : document.literal ? "'\\''"
                                       : "\\\"";
    }
    token.text += quote;
  }

  // ((A > B)) at the start of a command is one word.
  bool take_arithmetic() {
    if (glued_ || !text_.substr(at_).starts_with("((")) {
      return false;
    }
    const std::size_t end = after_bracket(text_, at_);
    if (end == kNotFound || !text_.substr(at_, end - at_).ends_with("))")) {
      return false;
    }
    push(ShellToken::Kind::kWord, std::string(text_.substr(at_, end - at_)));
    move_to(end);
    return true;
  }

  // <(…) and >(…) are words: names of what the commands inside write or read.
  bool take_process() {
    const bool opens = text_.substr(at_).starts_with("<(") || text_.substr(at_).starts_with(">(");
    const std::size_t end = opens ? after_bracket(text_, at_ + 1) : kNotFound;
    if (end == kNotFound) {
      return false;
    }
    push(ShellToken::Kind::kWord, std::string(text_.substr(at_, end - at_)));
    move_to(end);
    return true;
  }

  bool take_operator() {
    constexpr std::string_view kOperators[] = {"<<<", "&>>", "<<-", ";;&", ";;", ";&", "&&",
                                               "||",  "<<",  ">>",  ">&",  "<&", "&>", ">|",
                                               ";",   "&",   "|",   "(",   ")",  "<",  ">"};
    const auto found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                    [&](auto op) { return text_.substr(at_).starts_with(op); });
    if (found == std::end(kOperators)) {
      return false;
    }
    if ((found->front() == '<' || found->front() == '>') && glued_ && !tokens_.empty() &&
        std::all_of(tokens_.back().text.begin(), tokens_.back().text.end(),
                    [](char c) { return c >= '0' && c <= '9'; })) {
      tokens_.pop_back();  // the number of a file descriptor
    }
    push(ShellToken::Kind::kOperator, std::string(*found));
    move_to(at_ + found->size());
    if (*found == "<<" || *found == "<<-") {
      take_delimiter();
    }
    return true;
  }

  void take_delimiter() {
    while (at_ < text_.size() && is_blank(text_[at_])) {
      ++at_;
    }
    std::string word(text_.substr(at_, word_end() - at_));
    const auto marks =
        std::erase_if(word, [](char c) { return c == '"' || c == '\'' || c == '\\'; });
    move_to(word_end());
    push(ShellToken::Kind::kWord, "''");
    here_documents_.push_back({word, marks > 0, tokens_.size() - 1});
  }

  void take_word() {
    const std::size_t end = word_end();
    push(ShellToken::Kind::kWord, std::string(text_.substr(at_, end - at_)));
    move_to(end);
  }

  [[nodiscard]] std::size_t word_end() const {
    std::size_t i = at_;
    while (i < text_.size()) {
      const char c = text_[i];
      if (is_blank(c) || c == '\n' || std::string_view(";&|()<>").find(c) != kNotFound) {
        break;
      }
      std::size_t next = i + 1;
      if (c == '\\') {
        next = std::min(i + 2, text_.size());
      } else if (c == '\'' || c == '"' || c == '`') {
        next = after_quote(text_, i);
      } else if (c == '$' && next < text_.size() &&
                 std::string_view("({[").find(text_[next]) != kNotFound) {
        next = after_bracket(text_, next);
      } else if (c == '$' && next < text_.size() && (text_[next] == '\'' || text_[next] == '"')) {
        next = after_dollar_quote(text_, i);
      }
      if (next == kNotFound) {
        const auto lines = std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                      text_.begin() + static_cast<std::ptrdiff_t>(i), '\n');
        throw Error(fmt::format("{}:{}", source_, line_ + lines),
                    fmt::format("the {} that opens here does not close; a closing one would be "
                                "right",
                                c == '$' ? "bracket after $" : "quote"));
      }
      i = next;
    }
    return i;
  }

  std::string_view text_;
  const std::string& source_;
  const std::vector<int>& lines_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool glued_ = false;
  std::vector<ShellToken> tokens_;
  std::vector<HereDocument> here_documents_;
};

}  // namespace

std::size_t after_quote(std::string_view text, std::size_t open) {
  const char quote = text[open];
  for (std::size_t i = open + 1; i < text.size(); ++i) {
    if (text[i] == quote) {
      return i + 1;
    }
    if (quote != '\'' && text[i] == '\\') {
      ++i;
    } else if (quote == '"' && text[i] == '$' && i + 1 < text.size() &&
               (text[i + 1] == '(' || text[i + 1] == '{')) {
      const std::size_t end = after_bracket(text, i + 1);
      if (end == kNotFound) {
        return kNotFound;
      }
      i = end - 1;
    } else if (quote == '"' && text[i] == '`') {
      const std::size_t end = text.find('`', i + 1);
      if (end == kNotFound) {
        return kNotFound;
      }
      i = end;
    }
  }
  return kNotFound;
}

std::size_t after_dollar_quote(std::string_view text, std::size_t open) {
  if (text[open + 1] == '"') {
    return after_quote(text, open + 1);
  }
  for (std::size_t i = open + 2; i < text.size(); i += text[i] == '\\' ? 2U : 1U) {
    if (text[i] == '\'') {
      return i + 1;
    }
  }
  return kNotFound;
}

std::size_t after_bracket(std::string_view text, std::size_t open) {
  const char opening = text[open];
  const char closing = opening == '(' ? ')' : opening == '[' ? ']' : '}';
  int depth = 0;
  // Quotes inside brackets are skipped without looking at brackets inside them again, so that a
  // file of nested ones is read in linear time.
  for (std::size_t i = open; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\') {
      ++i;
    } else if (c == '\'' || c == '"') {
      std::size_t end = i + 1;
      while (end < text.size() && text[end] != c) {
        end += c == '"' && text[end] == '\\' ? 2U : 1U;
      }
      if (end >= text.size()) {
        return kNotFound;
      }
      i = end;
    } else if (c == opening) {
      ++depth;
    } else if (c == closing && --depth == 0) {
      return i + 1;
    }
  }
  return kNotFound;
}

std::vector<ShellToken> shell_tokens(std::string_view text, const std::string& source,
                                     const std::vector<int>& lines) {
  return Lexer(text, source, lines).run();
}

}  // namespace trireme::planner
