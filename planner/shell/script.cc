// The statements of a script in order: assignments, commands, and which branches count.
#include "planner/shell/script.h"

#include <algorithm>

#include "planner/shell/built_in.h"
#include "planner/shell/condition.h"
#include "planner/shell/names.h"
#include "planner/shell/tokens.h"

namespace trireme::planner {
namespace {

using Kind = ShellToken::Kind;

// An `if`, `case` or loop that is open.
struct Frame {
  enum class Kind : std::uint8_t { kIf, kCase, kLoop, kFunction, kGroup } kind = Kind::kIf;
  bool condition = false;  // the words of its condition are being read
  bool active = true;      // the present branch counts
  bool taken = false;      // a branch was chosen for sure: the later ones do not count
  bool undecided = false;  // the file does not say whether the branch counts
  int open_branches = 0;   // that the file did not decide so far
  std::optional<bool> result = true;
  std::string question = {};  // the words of the condition
  ShellText subject = {};     // of `case`
};

// Part of a command that starts a training, or a line of bare arguments.
bool holds_arguments(const ShellText& word) {
  return word.text.starts_with("--") || word.text.find(".py") != std::string::npos;
}

class Reader {
 public:
  Reader(std::vector<ShellToken> tokens, const ShellWorld& world, ShellScript& script)
      : tokens_(std::move(tokens)), world_(world), script_(script) {}

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
    frame.question = frame.subject.text;
    while (at_ < tokens_.size() && !is_operator(at_, ")")) {
      if (tokens_[at_].kind == Kind::kWord) {
        const ShellText pattern = expand(script_.variables, tokens_[at_].text, line);
        matches |= matches_pattern(frame.subject.text, pattern.text);
        frame.question += (frame.question.empty() ? "" : " or ") + tokens_[at_].text;
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
    const bool open = !result && !frame.taken && frame.kind != Frame::Kind::kLoop;
    if (open && world_.choice >= 0) {
      result = frame.open_branches == world_.choice;
    }
    frame.open_branches += open ? 1 : 0;
    frame.active = !frame.taken && result.value_or(true);
    frame.undecided = frame.active && !result;
    frame.taken = frame.taken || (result && *result);
    frame.condition = false;
    if (open && (frame.undecided || world_.choice >= 0)) {
      bool outer = true;
      for (std::size_t i = 0; i + 1 < frames_.size(); ++i) {
        outer = outer && frames_[i].active;
      }
      if (outer) {
        std::string& asked = frame.question;
        asked.erase(asked.find_last_not_of(" ;") + 1);
        script_.undecided.push_back({asked, line});
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
      frame->question.clear();
    } else if (frame != nullptr && word == "else") {
      const bool unknown = frame->undecided;
      frame->active = !frame->taken;
      frame->undecided = unknown && frame->active;
    } else if (frame != nullptr && (word == "fi" || word == "done" || word == "esac")) {
      frames_.pop_back();
    } else if (word == "function" && at_ < tokens_.size()) {
      ++at_;  // its name
      names_function_ = true;
    } else if (word == "{") {
      frames_.push_back(
          Frame{.kind = names_function_ ? Frame::Kind::kFunction : Frame::Kind::kGroup});
      names_function_ = false;
    } else if (word == "}") {
      if (frame != nullptr &&
          (frame->kind == Frame::Kind::kFunction || frame->kind == Frame::Kind::kGroup)) {
        frames_.pop_back();
      }
    } else if (word != "!" && word != "time") {
      return false;
    }
    script_.variables.in_function =
        std::any_of(frames_.begin(), frames_.end(),
                    [](const Frame& each) { return each.kind == Frame::Kind::kFunction; });
    return true;
  }

  // `name () {`
  bool opens_function() {
    if (!is_operator(at_ + 1, "(") || !is_operator(at_ + 2, ")")) {
      return false;
    }
    at_ += 3;
    names_function_ = true;
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
    if (opens_function()) {
      return ";";
    }
    ++at_;
    if (keyword(first)) {
      last_ = true;
      return ";";
    }
    --at_;
    const bool joined = joint == "&&" || joint == "||";
    const bool chosen = last_ || !joined || world_.choice <= 0;  // an open one counts as a branch
    const bool runs = active() && chosen && !(joint == "&&" && last_ && !*last_) &&
                      !(joint == "||" && last_ && *last_);
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
    std::optional<ShellText> input;  // <<< TEXT
    const std::size_t noted = script_.variables.unset_words.size();
    for (; at_ < tokens_.size(); ++at_) {
      const ShellToken& token = tokens_[at_];
      if (!frames_.empty() && frames_.back().condition && token.kind != Kind::kNewline) {
        std::string& question = frames_.back().question;
        question += (question.empty() ? "" : " ") + token.text;
      }
      if (token.kind == Kind::kOperator) {
        if (token.text == "(" && runs && !found.words.empty() &&
            found.words.back().text.starts_with("--")) {
          found.words.push_back(bracketed());
          continue;
        }
        if (token.text.find_first_of("<>") == std::string::npos) {
          break;
        }
        const bool here = token.text == "<<" || token.text == "<<-";
        at_ += here ? 0 : 1;  // where it is redirected to
        if (token.text == "<<<" && runs && at_ < tokens_.size()) {
          input = expand(script_.variables, tokens_[at_].text, tokens_[at_].line);
        }
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
      if (exports && is_shell_name(token.text)) {
        assigned.push_back(token.text);  // export NAME
      }
      if (runs) {
        const auto words = expand_and_split(script_.variables, token.text, token.line, found.words);
        note_open(words, token, found.words);
        found.words.insert(found.words.end(), words.begin(), words.end());
      }
    }
    if (!runs) {
      return;
    }
    last_ = found.words.empty() ? std::optional(true) : shell_condition(found.words);
    if (!found.words.empty() && built_in(found.words, input, assigned)) {
      return;
    }
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

  // `words` came of a token: where they are none although something stands there, the word before
  // may have lost its value.
  static void note_open(const std::vector<ShellText>& words, const ShellToken& token,
                        std::vector<ShellText>& before) {
    if (words.empty() && !before.empty() && token.text.find_first_of("$`") != std::string::npos) {
      before.back().open_after = true;
    }
  }

  // What changes the script's own state; true when the command was one of these.
  bool built_in(const std::vector<ShellText>& words, const std::optional<ShellText>& input,
                const std::vector<std::string>& assigned) {
    const std::string& name = words[0].text;
    ShellVariables& variables = script_.variables;
    if (name == "set" && words.size() > 1 && words[1].text == "--") {
      variables.positional.emplace(words.begin() + 2, words.end());
    } else if (name == "shift") {
      shift_words(words, variables);
    } else if (name == "read" && input) {
      const bool own = std::find(assigned.begin(), assigned.end(), "IFS") != assigned.end();
      read_into_variables(words, *input, own ? variables.known["IFS"].values.front().text : " \t\n",
                          variables);
    } else if ((name == "source" || name == ".") && words.size() > 1) {
      read_file(words[1]);
    } else {
      return false;
    }
    return true;
  }

  // The tokens of a sourced file come next.
  void read_file(const ShellText& name) {
    constexpr std::size_t kFilesMax = 40;
    const int line = name.lines.empty() ? 0 : name.lines.front();
    ShellVariables& variables = script_.variables;
    const auto text = world_.read && !name.outside && variables.files.size() < kFilesMax
                          ? world_.read(name.text)
                          : std::nullopt;
    if (!text) {
      script_.unread.push_back({name.text, line});
      return;
    }
    variables.files.push_back(name.text);
    std::vector<ShellToken> tokens = shell_tokens(*text, name.text);
    for (ShellToken& token : tokens) {
      token.line += static_cast<int>(variables.files.size()) * kLinesOfFile;
    }
    tokens.insert(tokens.begin(), ShellToken{Kind::kNewline, "\n", line, false});
    tokens.push_back(ShellToken{Kind::kNewline, "\n", line, false});
    tokens_.insert(tokens_.begin() + static_cast<std::ptrdiff_t>(at_), tokens.begin(),
                   tokens.end());
  }

  // ([0]*3+[1]*58) without quotes: no shell would take it, but files of bare arguments have it.
  ShellText bracketed() {
    const int line = tokens_[at_].line;
    std::string text = tokens_[at_].text;
    while (at_ + 1 < tokens_.size() && tokens_[at_ + 1].glued &&
           tokens_[at_ + 1].kind != Kind::kNewline && tokens_[at_].text != ")") {
      text += tokens_[++at_].text;
    }
    return plain_text(text, line);
  }

  void export_names(const std::vector<std::string>& names, int line) {
    for (const std::string& name : names) {
      const auto found = script_.variables.known.find(name);
      if (found != script_.variables.known.end() && !found->second.values.empty()) {
        script_.environment.push_back({name, found->second.values.front().text, line});
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
          note_open(words, tokens_[at_], variable.values);
          variable.values.insert(variable.values.end(), words.begin(), words.end());
        }
      }
    } else if (runs) {
      const std::string_view raw = std::string_view(token.text).substr(equals + 1);
      const std::size_t noted = script_.variables.unset_words.size();
      variable.values.push_back(expand(script_.variables, raw, token.line));
      const std::string& text = variable.values.front().text;
      const bool arguments =
          text.find("--") != std::string::npos || text.find(".py") != std::string::npos ||
          name.find("ARGS") != std::string::npos || name.find("OPT") != std::string::npos;
      if (!arguments) {
        script_.variables.unset_words.resize(noted);
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
  const ShellWorld& world_;
  ShellScript& script_;
  std::size_t at_ = 0;
  std::vector<Frame> frames_;
  bool names_function_ = false;      // the next brace opens a function's body
  std::optional<bool> last_ = true;  // whether the last command succeeded
};

}  // namespace

ShellScript read_shell(std::string_view text, const std::string& source, const ShellWorld& world) {
  ShellScript script;
  script.variables.source = source;
  for (const auto& [name, value] : world.variables) {
    script.variables.known[name] = ShellVariable{{plain_text(value, 0)}, false};
  }
  if (!world.words.empty()) {
    script.variables.positional.emplace();
    for (const std::string& word : world.words) {
      script.variables.positional->push_back(plain_text(word, 0));
    }
  }
  Reader(shell_tokens(text, source), world, script).run();
  return script;
}

}  // namespace trireme::planner
