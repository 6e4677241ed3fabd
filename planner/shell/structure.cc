#include "planner/shell/structure.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "core/error.h"
#include "planner/shell/nested.h"

namespace trireme::planner {
namespace {

using Kind = ShellToken::Kind;
using WordList = std::initializer_list<std::string_view>;

constexpr int kStructuresMost = 200;

bool holds(WordList words, std::string_view text) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// Recursive descent; what it does not understand it passes over, for files hold more than bash
// takes.
class Grammar {
 public:
  Grammar(std::vector<ShellToken> tokens, const std::string& source)
      : tokens_(std::move(tokens)),
        source_(source),
        before_(tokens_.size() + 1),
        behind_(tokens_.size() + 1) {}

  std::vector<ShellToken> run() {
    while (!done()) {
      list({});
      at_ += done() ? 0 : 1;
    }
    std::vector<ShellToken> all;
    for (std::size_t i = 0; i <= tokens_.size(); ++i) {
      for (const char bracket : behind_[i] + before_[i]) {
        const int line = tokens_[std::min(i, tokens_.size() - 1)].line;
        const bool word = bracket == '{' || bracket == '}';
        all.push_back({word ? Kind::kWord : Kind::kOperator, std::string(1, bracket), line, false});
        if (bracket == '}') {  // a word only at the start of a command
          all.insert(all.end() - 1, {Kind::kOperator, ";", line, false});
        }
      }
      if (i < tokens_.size()) {
        all.push_back(std::move(tokens_[i]));
      }
    }
    return all;
  }

 private:
  [[nodiscard]] bool done() const { return at_ >= tokens_.size(); }
  [[nodiscard]] const ShellToken& next() const { return tokens_[at_]; }
  [[nodiscard]] bool is_word(std::string_view text) const {
    return !done() && trireme::planner::is_word(next(), text);
  }
  [[nodiscard]] bool is_operator(std::string_view text, std::size_t behind = 0) const {
    return at_ + behind < tokens_.size() && tokens_[at_ + behind].kind == Kind::kOperator &&
           tokens_[at_ + behind].text == text;
  }
  [[nodiscard]] bool is_redirection() const {
    return !done() && next().kind == Kind::kOperator &&
           next().text.find_first_of("<>") != std::string::npos;
  }
  // A token with which a command begins.
  [[nodiscard]] bool begins() const {
    return !done() && (next().kind == Kind::kWord || is_operator("(") || is_redirection());
  }
  void skip_newlines() {
    while (!done() && next().kind == Kind::kNewline) {
      ++at_;
    }
  }

  void put_around(std::size_t begin, std::size_t end, std::string_view brackets) {
    before_[begin].insert(0, 1, brackets[0]);
    behind_[end] += brackets[1];
  }

  void open(std::string_view closing) {
    open_.push_back({at_, closing});
    ++at_;
  }

  // The word that the construct needs next; what opened it is named where it does not come.
  void expect(std::string_view word) {
    if (done()) {
      const ShellToken& opening = tokens_[open_.back().first];
      throw Error(fmt::format("{}:{}", source_, opening.line),
                  fmt::format("the {} that opens here does not close; its {} would be right",
                              opening.text, open_.back().second));
    }
    ++at_;
    if (word == open_.back().second) {
      open_.pop_back();
    }
  }

  // fi, done and esac where nothing of theirs is open.
  void refuse_stray() const {
    if (done() || next().kind != Kind::kWord ||
        !holds({"then", "elif", "else", "fi", "do", "done", "esac"}, next().text)) {
      return;
    }
    const std::string inside = open_.empty()
                                   ? "nothing that is open here"
                                   : fmt::format(
                                         "no part of the {} that opens in line {}; its {} would be "
                                         "right",
                                         tokens_[open_.back().first].text,
                                         tokens_[open_.back().first].line, open_.back().second);
    throw Error(fmt::format("{}:{}", source_, next().line),
                fmt::format("the {} belongs to {}", next().text, inside));
  }

  // Commands up to one of the words or operators.
  void list(WordList ends) {
    while (!done()) {
      const bool sees_end = next().kind != Kind::kNewline && holds(ends, next().text);
      if (sees_end || (ends.size() == 0 && is_operator(")"))) {
        return;
      }
      refuse_stray();
      if (begins()) {
        joined();
      } else {
        ++at_;
      }
    }
  }

  // A && B || C; in the background behind &.
  void joined() {
    const std::size_t begin = at_;
    pipeline(false);
    while (is_operator("&&") || is_operator("||")) {
      ++at_;
      skip_newlines();
      pipeline(true);
    }
    if (is_operator("&")) {
      put_around(begin, at_, "()");
    }
  }

  void pipeline(bool is_joined) {
    bool negated = false;
    for (; is_word("!") || is_word("time"); ++at_) {
      negated = true;
    }
    std::vector<std::pair<std::size_t, std::size_t>> parts;
    bool loops = false;
    while (begins()) {
      const std::size_t begin = at_;
      loops = command();
      parts.emplace_back(begin, at_);
      if (!is_operator("|")) {
        break;
      }
      at_ += is_operator("&", 1) ? 2U : 1U;
      skip_newlines();
    }
    for (const auto& [begin, end] : parts) {
      if (parts.size() > 1) {
        put_around(begin, end, "()");
      } else if (loops && (is_joined || negated)) {
        put_around(begin, end, "{}");
      }
    }
  }

  // Of functions within functions and what is open.
  [[nodiscard]] Nested deeper() {
    if (depth_ >= kStructuresMost) {
      throw Error(fmt::format("{}:{}", source_, next().line), "has too many nested brackets");
    }
    return Nested(depth_);
  }

  // Returns whether it is a loop.
  bool command() {
    refuse_stray();
    const Nested nested = deeper();
    const std::string word = next().kind == Kind::kWord ? next().text : "";
    bool loops = false;
    if (word == "if") {
      branch();
    } else if (word == "while" || word == "until" || word == "for" || word == "select") {
      loops = loop(word == "for" || word == "select");
    } else if (word == "case") {
      cases();
    } else if (word == "{" || is_operator("(")) {
      open(word == "{" ? "}" : ")");
      word == "{" ? list({"}"}) : list({")"});
      expect(word == "{" ? "}" : ")");
    } else if (word == "function" || defines_function()) {
      at_ += word == "function" ? 2U : 1U;
      at_ += is_operator("(") && is_operator(")", 1) ? 2U : 0U;
      skip_newlines();
      return begins() && command();
    } else {
      words();
      return false;
    }
    while (is_redirection()) {
      at_ = std::min(at_ + 2, tokens_.size());
    }
    return loops;
  }

  // NAME () and what follows, not NAME=().
  [[nodiscard]] bool defines_function() const {
    return next().kind == Kind::kWord && !next().text.ends_with('=') && is_operator("(", 1) &&
           is_operator(")", 2);
  }

  void branch() {
    open("fi");
    do {
      list({"then"});
      expect("then");
      list({"elif", "else", "fi"});
      expect("elif, else");
    } while (trireme::planner::is_word(tokens_[at_ - 1], "elif"));
    if (trireme::planner::is_word(tokens_[at_ - 1], "else")) {
      list({"fi"});
      expect("fi");
    } else {
      open_.pop_back();
    }
  }

  bool loop(bool over_words) {
    open("done");
    if (over_words) {
      while (!done() && next().kind == Kind::kWord && next().text != "do") {
        ++at_;
      }
    }
    list({"do"});
    expect("do");
    list({"done"});
    expect("done");
    return true;
  }

  void cases() {
    open("esac");
    at_ = std::min(at_ + 1, tokens_.size());
    skip_newlines();
    expect("in");
    for (skip_newlines(); !is_word("esac"); skip_newlines()) {
      at_ += is_operator("(") ? 1 : 0;
      while (!done() && !is_operator(")")) {
        ++at_;
      }
      expect(") of a pattern");
      list({";;", ";&", ";;&", "esac"});
      if (!is_word("esac")) {
        expect(";;");
      }
    }
    expect("esac");
  }

  // A simple command: words and redirections to its end.
  void words() {
    if (is_word("[[")) {
      take_test();
    }
    while (!done() && next().kind != Kind::kNewline) {
      if (next().kind == Kind::kWord) {
        ++at_;
      } else if (is_operator("(")) {
        array();
      } else if (is_redirection()) {
        at_ = std::min(at_ + 2, tokens_.size());
      } else {
        return;
      }
    }
  }

  // There && and < are operators of its own.
  void take_test() {
    const auto place = tokens_.begin() + static_cast<std::ptrdiff_t>(at_);
    const auto end = std::find_if(place, tokens_.end(), [](const ShellToken& token) {
      return trireme::planner::is_word(token, "]]");
    });
    at_ += end == tokens_.end() ? 0U : static_cast<std::size_t>(end - place);
  }

  // NAME=( … ) over lines; elsewhere brackets are words of whoever takes them.
  void array() {
    const bool lines = at_ > 0 && next().glued && tokens_[at_ - 1].text.ends_with("=");
    std::size_t end = at_;
    for (int depth = 0; end < tokens_.size(); ++end) {
      const bool bracket = tokens_[end].kind == Kind::kOperator;
      depth += bracket && tokens_[end].text == "(" ? 1 : 0;
      depth -= bracket && tokens_[end].text == ")" ? 1 : 0;
      if (depth == 0 || (!lines && tokens_[end].kind == Kind::kNewline)) {
        break;
      }
    }
    at_ = end < tokens_.size() && tokens_[end].kind == Kind::kOperator ? end + 1 : at_ + 1;
  }

  std::vector<ShellToken> tokens_;
  const std::string& source_;
  std::vector<std::string> before_, behind_;  // brackets before a token, and behind what ends there
  std::vector<std::pair<std::size_t, std::string_view>> open_;  // what is open, and what closes it
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::vector<ShellToken> with_brackets(std::vector<ShellToken> tokens, const std::string& source) {
  return Grammar(std::move(tokens), source).run();
}

std::vector<ShellToken> script_tokens(std::string_view text, const std::string& source) {
  return with_brackets(shell_tokens(text, source), source);
}

}  // namespace trireme::planner
