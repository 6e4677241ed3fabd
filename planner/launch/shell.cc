// The statements of a script in order: assignments, commands, and which branches count.
#include "planner/launch/shell.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/launch/shell_condition.h"
#include "planner/launch/shell_tokens.h"

namespace trireme::planner {
namespace {

using Kind = ShellToken::Kind;

// An `if`, `case` or loop that is open.
struct Frame {
  enum class Kind : std::uint8_t { kIf, kCase, kLoop } kind = Kind::kIf;
  bool condition = false;  // the words of its condition are being read
  bool active = true;      // the present branch counts
  bool taken = false;      // a branch was chosen for sure: the later ones do not count
  bool undecided = false;  // the file does not say whether the branch counts
  std::optional<bool> result = true;
  ShellText subject = {};  // of `case`
};

bool is_name(std::string_view text) {
  return !text.empty() && (text[0] < '0' || text[0] > '9') &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_';
         });
}

// NAME, NAME+ or NAME[0] before the first '='; empty when the word is no assignment.
std::string_view assigned_name(std::string_view word) {
  std::string_view name = word.substr(0, std::min(word.find('='), word.size()));
  if (name.size() == word.size()) {
    return {};
  }
  if (name.ends_with('+')) {
    name.remove_suffix(1);
  }
  if (const auto bracket = name.find('['); bracket != std::string_view::npos) {
    name = name.substr(0, bracket);
  }
  return is_name(name) ? name : std::string_view();
}

ShellText plain(const std::string& text, int line) {
  return ShellText{text, std::vector<int>(text.size(), line), std::vector<bool>(text.size())};
}

// Part of a command that starts a training, or a line of bare arguments.
bool holds_arguments(const ShellText& word) {
  return word.text.starts_with("--") || word.text.find(".py") != std::string::npos;
}

class Reader {
 public:
  Reader(std::vector<ShellToken> tokens, ShellScript& script)
      : tokens_(std::move(tokens)), script_(script) {}

  void run() {
    std::string_view joint = ";";
    while (at_ < tokens_.size()) {
      if (!open_case_pattern()) {
        joint = statement(joint);
      }
    }
  }

 private:
  [[nodiscard]] bool is_operator(std::size_t at, std::string_view text) const {
    return at < tokens_.size() && tokens_[at].kind == Kind::kOperator && tokens_[at].text == text;
  }
  [[nodiscard]] bool active() const {
    return std::all_of(frames_.begin(), frames_.end(),
                       [](const Frame& frame) { return frame.active || frame.condition; });
  }
  [[nodiscard]] bool undecided() const {
    return std::any_of(frames_.begin(), frames_.end(),
                       [](const Frame& frame) { return frame.undecided; });
  }

  // `a|b)` at the start of a branch of `case`.
  bool open_case_pattern() {
    if (frames_.empty() || frames_.back().kind != Frame::Kind::kCase || !frames_.back().condition) {
      return false;
    }
    const ShellToken& token = tokens_[at_];
    if (token.kind == Kind::kNewline || is_operator(at_, "(") || is_operator(at_, ";;")) {
      ++at_;
      return true;
    }
    if (token.text == "esac") {
      frames_.pop_back();
      ++at_;
      return true;
    }
    Frame& frame = frames_.back();
    bool matches = false;
    const int line = token.line;
    while (at_ < tokens_.size() && !is_operator(at_, ")")) {
      if (tokens_[at_].kind == Kind::kWord) {
        const ShellText pattern = expand(script_.variables, tokens_[at_].text, line);
        matches |= matches_pattern(frame.subject.text, pattern.text);
      }
      ++at_;
    }
    ++at_;
    frame.condition = false;
    const bool outside = frame.subject.outside;
    settle(frame, outside ? std::nullopt : std::optional(matches), line);
    return true;
  }

  void settle(Frame& frame, std::optional<bool> result, int line) {
    frame.active = !frame.taken && result.value_or(true);
    frame.undecided = frame.active && !result;
    frame.taken = frame.taken || (result && *result);
    frame.condition = false;
    if (frame.undecided) {
      bool outer = true;
      for (std::size_t i = 0; i + 1 < frames_.size(); ++i) {
        outer = outer && frames_[i].active;
      }
      if (outer) {
        script_.undecided.push_back(line);
      }
    }
  }

  // Keywords at the start of a statement; true when one was taken.
  bool keyword(const ShellToken& token) {
    const std::string& word = token.text;
    Frame* frame = frames_.empty() ? nullptr : &frames_.back();
    if (word == "if" || word == "while" || word == "until") {
      frames_.push_back(
          Frame{.kind = word == "if" ? Frame::Kind::kIf : Frame::Kind::kLoop, .condition = true});
      frames_.back().active = false;
    } else if (word == "for" || word == "select") {
      loop_variable();
    } else if (word == "case") {
      open_case();
    } else if (frame != nullptr && word == "then") {
      settle(*frame, frame->result, token.line);
    } else if (frame != nullptr && word == "do") {
      if (frame->condition) {
        settle(*frame, std::nullopt, token.line);
      }
    } else if (frame != nullptr && word == "elif") {
      frame->condition = !frame->taken;
      frame->active = false;
      frame->undecided = false;
      frame->result = true;
    } else if (frame != nullptr && word == "else") {
      const bool unknown = frame->undecided;
      frame->active = !frame->taken;
      frame->undecided = unknown && frame->active;
    } else if (frame != nullptr && (word == "fi" || word == "done" || word == "esac")) {
      frames_.pop_back();
    } else if (word != "{" && word != "}" && word != "!" && word != "function" && word != "time") {
      return false;
    }
    return true;
  }

  // `for X in a b; do`: X has its first value.
  void loop_variable() {
    const int line = tokens_[at_ - 1].line;
    frames_.push_back(Frame{.kind = Frame::Kind::kLoop});
    std::vector<ShellText> words;
    while (at_ < tokens_.size() && tokens_[at_].kind == Kind::kWord && tokens_[at_].text != "do") {
      const auto more = expand_and_split(script_.variables, tokens_[at_].text, tokens_[at_].line);
      words.insert(words.end(), more.begin(), more.end());
      ++at_;
    }
    if (words.size() > 2 && words[1].text == "in" && active()) {
      script_.variables.known[words[0].text] = ShellVariable{{words[2]}, false};
      if (words.size() > 3) {
        script_.loops.push_back({words[0].text, words[2].text, line});
      }
    }
  }

  void open_case() {
    Frame frame{.kind = Frame::Kind::kCase, .condition = true, .active = false};
    if (at_ < tokens_.size() && tokens_[at_].kind == Kind::kWord) {
      frame.subject = expand(script_.variables, tokens_[at_].text, tokens_[at_].line);
      ++at_;
    }
    while (at_ < tokens_.size() &&
           (tokens_[at_].kind == Kind::kNewline || tokens_[at_].text == "in")) {
      ++at_;
    }
    frames_.push_back(std::move(frame));
  }

  // One simple command, or the separator before the next. `joint` is what stood before it.
  std::string_view statement(std::string_view joint) {
    const ShellToken& first = tokens_[at_];
    if (first.kind != Kind::kWord) {
      ++at_;
      if (first.text == ";;" && !frames_.empty() && frames_.back().kind == Frame::Kind::kCase) {
        frames_.back().condition = true;
        frames_.back().active = false;
        frames_.back().undecided = false;
      }
      return first.kind == Kind::kNewline && (joint == "&&" || joint == "||") ? joint : first.text;
    }
    ++at_;
    if (keyword(first)) {
      last_ = true;
      return ";";
    }
    --at_;
    const bool runs =
        active() && !(joint == "&&" && last_ && !*last_) && !(joint == "||" && last_ && *last_);
    const std::optional<bool> before = last_;
    command(runs);
    if (!runs) {
      last_ = before;
    } else if (!frames_.empty() && frames_.back().condition) {
      frames_.back().result = combined(joint, before);
    }
    return ";";
  }

  [[nodiscard]] std::optional<bool> combined(std::string_view joint,
                                             std::optional<bool> before) const {
    // The second part runs only where the first one leaves the answer open.
    if (joint == "&&") {
      return last_ && !*last_ ? last_ : (before ? last_ : std::nullopt);
    }
    if (joint == "||") {
      return last_ && *last_ ? last_ : (before ? last_ : std::nullopt);
    }
    return last_;
  }

  // Reads a simple command to its end; assignments and words count when it `runs`.
  void command(bool runs) {
    ShellCommand found;
    found.line = tokens_[at_].line;
    std::vector<std::string> assigned;
    bool exports = false;
    bool declares = false;
    const std::size_t noted = script_.variables.unset_words.size();
    for (; at_ < tokens_.size(); ++at_) {
      const ShellToken& token = tokens_[at_];
      if (token.kind == Kind::kOperator) {
        if (token.text == "(" && runs && !found.words.empty() &&
            found.words.back().text.starts_with("--")) {
          found.words.push_back(bracketed());
          continue;
        }
        if (token.text.find_first_of("<>") == std::string::npos) {
          break;
        }
        at_ += token.text == "<<" || token.text == "<<-" ? 0 : 1;  // where it is redirected to
        continue;
      }
      if (token.kind == Kind::kNewline) {
        break;
      }
      const std::string_view name = assigned_name(token.text);
      const bool leads = found.words.empty() || declares;
      if (leads && !name.empty()) {
        if (assignment(token, runs)) {
          assigned.emplace_back(name);
        }
        continue;
      }
      if (found.words.empty() &&
          (token.text == "export" || token.text == "declare" || token.text == "local" ||
           token.text == "readonly" || token.text == "typeset")) {
        declares = true;
        exports = token.text == "export";
      }
      exports = exports || (declares && token.text == "-x");
      if (exports && is_name(token.text)) {
        assigned.push_back(token.text);  // export NAME
      }
      if (runs) {
        const auto words = expand_and_split(script_.variables, token.text, token.line, found.words);
        found.words.insert(found.words.end(), words.begin(), words.end());
      }
    }
    if (!runs) {
      return;
    }
    last_ = found.words.empty() ? std::optional(true) : shell_condition(found.words);
    if (exports || !found.words.empty()) {
      export_names(assigned, found.line);
    }
    if (!declares && !found.words.empty()) {
      if (std::none_of(found.words.begin(), found.words.end(), holds_arguments)) {
        script_.variables.unset_words.resize(noted);  // cd $FOLDER
      }
      script_.commands.push_back(std::move(found));
    }
  }

  // ([0]*3+[1]*58) without quotes: no shell would take it, but files of bare arguments have it.
  ShellText bracketed() {
    const int line = tokens_[at_].line;
    std::string text = tokens_[at_].text;
    while (at_ + 1 < tokens_.size() && tokens_[at_ + 1].glued &&
           tokens_[at_ + 1].kind != Kind::kNewline && tokens_[at_].text != ")") {
      text += tokens_[++at_].text;
    }
    return plain(text, line);
  }

  void export_names(const std::vector<std::string>& names, int line) {
    for (const std::string& name : names) {
      const auto found = script_.variables.known.find(name);
      if (found != script_.variables.known.end() && !found->second.values.empty()) {
        script_.environment.push_back({name, found->second.values.front().text, name, line});
      }
    }
  }

  // NAME=value, NAME+=value or NAME=( … ); true when it was kept.
  bool assignment(const ShellToken& token, bool runs) {
    const std::string name(assigned_name(token.text));
    const std::size_t equals = token.text.find('=');
    const bool adds = token.text[equals - 1] == '+';
    ShellVariable variable;
    if (equals + 1 == token.text.size() && is_operator(at_ + 1, "(") && tokens_[at_ + 1].glued) {
      variable.array = true;
      for (at_ += 2; at_ < tokens_.size() && !is_operator(at_, ")"); ++at_) {
        if (tokens_[at_].kind == Kind::kWord && runs) {
          const auto words = expand_and_split(script_.variables, tokens_[at_].text,
                                              tokens_[at_].line, variable.values);
          variable.values.insert(variable.values.end(), words.begin(), words.end());
        }
      }
    } else if (runs) {
      const std::string_view raw = std::string_view(token.text).substr(equals + 1);
      const std::size_t noted = script_.variables.unset_words.size();
      variable.values.push_back(expand(script_.variables, raw, token.line));
      if (raw.find("--") == std::string_view::npos && name.find("ARGS") == std::string::npos &&
          name.find("OPT") == std::string::npos) {
        script_.variables.unset_words.resize(noted);  // no arguments
      }
    }
    if (!runs) {
      return false;
    }
    ShellVariable& known = script_.variables.known[name];
    const bool from_outside =
        !variable.array && variable.values.front().outside && variable.values.front().text.empty();
    if (from_outside && undecided() && !known.values.empty()) {
      return false;  // `--tp) TP=$2`: the value above stands unless the command line changes it
    }
    if (!adds || known.values.empty()) {
      known = std::move(variable);
    } else if (variable.array) {
      known.values.insert(known.values.end(), variable.values.begin(), variable.values.end());
    } else {
      ShellText& text = known.values.front();
      const ShellText& more = variable.values.front();
      text.text += more.text;
      text.lines.insert(text.lines.end(), more.lines.begin(), more.lines.end());
      text.quoted.insert(text.quoted.end(), more.quoted.begin(), more.quoted.end());
      text.outside |= more.outside;
    }
    return true;
  }

  std::vector<ShellToken> tokens_;
  ShellScript& script_;
  std::size_t at_ = 0;
  std::vector<Frame> frames_;
  std::optional<bool> last_ = true;  // whether the last command succeeded
};

}  // namespace

ShellScript read_shell(std::string_view text, const std::string& source,
                       const std::map<std::string, std::string>& variables) {
  ShellScript script;
  script.variables.source = source;
  for (const auto& [name, value] : variables) {
    script.variables.known[name] = ShellVariable{{plain(value, 0)}, false};
  }
  Reader(shell_tokens(text, source), script).run();
  return script;
}

}  // namespace trireme::planner
