// The statements of a script in order: assignments, commands, and which branches count.
#include "planner/shell/script.h"

#include <algorithm>
#include <map>

#include "planner/shell/branches.h"
#include "planner/shell/built_in.h"
#include "planner/shell/condition.h"
#include "planner/shell/functions.h"
#include "planner/shell/names.h"
#include "planner/shell/tokens.h"

namespace trireme::planner {
namespace {

using Kind = ShellToken::Kind;

// The end of a function's body, between its commands.
constexpr std::string_view kReturn = "\x01return";

// Part of a command that starts a training, or a line of bare arguments.
bool holds_arguments(const ShellText& word) {
  return word.text.starts_with("--") || word.text.find(".py") != std::string::npos;
}

class Reader {
 public:
  Reader(std::vector<ShellToken> tokens, const ShellWorld& world, ShellScript& script)
      : tokens_(std::move(tokens)),
        world_(world),
        script_(script),
        branches_(world.choice, script.undecided) {}

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
  // `a|b)` at the start of a branch of `case`.
  bool open_case_pattern() {
    if (branches_.empty() || branches_.top().kind != Frame::Kind::kCase ||
        !branches_.top().condition) {
      return false;
    }
    const ShellToken& token = tokens_[at_];
    if (token.kind == Kind::kNewline || is_operator(at_, "(") || is_operator(at_, ";;")) {
      ++at_;
      return true;
    }
    if (token.text == "esac") {
      branches_.close();
      ++at_;
      return true;
    }
    Frame& frame = branches_.top();
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
    branches_.settle(outside ? std::nullopt : std::optional(matches), line);
    return true;
  }

  // Keywords at the start of a statement; true when one was taken.
  bool keyword(const ShellToken& token) {
    const std::string& word = token.text;
    if (word == "if" || word == "while" || word == "until") {
      branches_.open({.kind = word == "if" ? Frame::Kind::kIf : Frame::Kind::kLoop,
                      .condition = true,
                      .active = false});
    } else if (word == "for" || word == "select") {
      loop_variable();
    } else if (word == "case") {
      open_case();
    } else if (word == kReturn) {
      leave_function();
    } else if (word == "function" && at_ < tokens_.size()) {
      const std::string name = tokens_[at_++].text;
      at_ += is_operator(at_, "(") && is_operator(at_ + 1, ")") ? 2 : 0;
      names_function_ = !keep_body(name);
    } else if (word == "{") {
      branches_.open({.kind = names_function_ ? Frame::Kind::kFunction : Frame::Kind::kGroup});
      names_function_ = false;
    } else if (!branches_.keyword(word, token.line) && word != "!" && word != "time") {
      return false;
    }
    script_.variables.in_function = branches_.in_function();
    return true;
  }

  // `name () {`
  bool opens_function() {
    if (!is_operator(at_ + 1, "(") || !is_operator(at_ + 2, ")")) {
      return false;
    }
    const std::string name = tokens_[at_].text;
    at_ += 3;
    names_function_ = !keep_body(name);
    return true;
  }

  // Keeps the body in braces that comes next where the script calls the function later on, and goes
  // on behind it. Otherwise it is read where it stands, for nobody knows who calls it.
  bool keep_body(const std::string& name) {
    const auto [begin, end] = function_body(tokens_, at_);
    if (begin == end || !is_called_after(tokens_, end, name)) {
      return false;
    }
    if (branches_.active()) {
      functions_[name] = {tokens_.begin() + static_cast<std::ptrdiff_t>(begin) + 1,
                          tokens_.begin() + static_cast<std::ptrdiff_t>(end)};
    }
    at_ = std::min(end + 1, tokens_.size());
    return true;
  }

  // The body's tokens come next, with the words of the call as $1, $2, …; false: no function that
  // is kept, or one that calls itself for ever.
  bool call_function(const std::vector<ShellText>& words) {
    constexpr std::size_t kOpenMost = 20;
    constexpr int kCallsMost = 200;
    const auto body = functions_.find(words[0].text);
    if (body == functions_.end() || callers_.size() >= kOpenMost || ++calls_ > kCallsMost) {
      return false;
    }
    callers_.push_back(script_.variables.positional);
    script_.variables.positional.emplace(words.begin() + 1, words.end());
    ++script_.variables.calls;
    const int line = words[0].lines.empty() ? 0 : words[0].lines.front();
    std::vector<ShellToken> tokens = {ShellToken{Kind::kNewline, "\n", line, false}};
    tokens.insert(tokens.end(), body->second.begin(), body->second.end());
    tokens.push_back(ShellToken{Kind::kNewline, "\n", line, false});
    tokens.push_back(ShellToken{Kind::kWord, std::string(kReturn), line, false});
    tokens.push_back(ShellToken{Kind::kNewline, "\n", line, false});
    tokens_.insert(tokens_.begin() + static_cast<std::ptrdiff_t>(at_), tokens.begin(),
                   tokens.end());
    return true;
  }

  void leave_function() {
    if (!callers_.empty()) {
      script_.variables.positional = callers_.back();
      callers_.pop_back();
      --script_.variables.calls;
    }
  }

  // ((A > B)) as a command.
  void arithmetic(const ShellToken& token, bool runs) {
    ++at_;
    branches_.ask(token.text);
    if (runs) {
      const std::string inside = token.text.substr(2, token.text.size() - 4);
      const ShellText text = expand(script_.variables, inside, token.line);
      const auto value =
          text.outside ? std::nullopt : shell_arithmetic(script_.variables, text.text, token.line);
      last_ = value ? std::optional(*value != 0) : std::nullopt;
    }
  }

  // `for X in a b; do`: X has its first value.
  void loop_variable() {
    const int line = tokens_[at_ - 1].line;
    branches_.open({.kind = Frame::Kind::kLoop});
    std::vector<ShellText> words;
    while (at_ < tokens_.size() && tokens_[at_].kind == Kind::kWord && tokens_[at_].text != "do") {
      const auto more = expand_and_split(script_.variables, tokens_[at_].text, tokens_[at_].line);
      words.insert(words.end(), more.begin(), more.end());
      ++at_;
    }
    if (words.size() > 2 && words[1].text == "in" && branches_.active()) {
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
    branches_.open(std::move(frame));
  }

  // One simple command, or the separator before the next. `joint` is what stood before it.
  std::string_view statement(std::string_view joint) {
    const ShellToken& first = tokens_[at_];
    if (first.kind != Kind::kWord) {
      ++at_;
      if (first.text == ";;" && !branches_.empty() && branches_.top().kind == Frame::Kind::kCase) {
        branches_.top().condition = true;
        branches_.top().active = false;
        branches_.top().undecided = false;
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
    const bool runs = branches_.active() && chosen && !(joint == "&&" && last_ && !*last_) &&
                      !(joint == "||" && last_ && *last_);
    const std::optional<bool> before = last_;
    if (tokens_[at_].text.starts_with("((")) {
      arithmetic(ShellToken(tokens_[at_]), runs);
    } else {
      command(runs);
    }
    if (!runs) {
      last_ = before;
    } else if (!branches_.empty() && branches_.top().condition) {
      branches_.top().result = combined(joint, before);
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
      if (token.kind != Kind::kNewline) {
        branches_.ask(token.text);
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
    if (!found.words.empty() &&
        (built_in(found.words, input, assigned) || call_function(found.words))) {
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
    } else if (name == "let" || (name == "printf" && words.size() > 2 && words[1].text == "-v")) {
      name == "let" ? let_variables(words, variables) : print_into_variable(words, variables);
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

  // NODES=( $(scontrol …) ): what is missing in an array counts where the array stands as
  // arguments, not here, unless it holds some itself.
  void forget_unused(const std::string& name, std::size_t noted, ShellVariable& array) {
    std::vector<UnsetWord>& unset = script_.variables.unset_words;
    const bool arguments = name.find("ARGS") != std::string::npos ||
                           name.find("OPT") != std::string::npos ||
                           std::any_of(array.values.begin(), array.values.end(), holds_arguments);
    if (arguments || unset.size() <= noted) {
      return;
    }
    if (array.values.empty()) {
      array.values.emplace_back();
      array.values.back().outside = true;
      array.values.back().open_after = unset.back().command;
    }
    unset.resize(noted);
  }

  // NAME=value, NAME+=value or NAME=( … ); true when it was kept.
  bool assignment(const ShellToken& token, bool runs) {
    const std::string name(assigned_name(token.text));
    const std::size_t equals = token.text.find('=');
    const bool adds = token.text[equals - 1] == '+';
    ShellVariable variable;
    if (equals + 1 == token.text.size() && is_operator(at_ + 1, "(") && tokens_[at_ + 1].glued) {
      variable.array = true;
      const std::size_t noted = script_.variables.unset_words.size();
      for (at_ += 2; at_ < tokens_.size() && !is_operator(at_, ")"); ++at_) {
        const std::string& element = tokens_[at_].text;
        const std::size_t key_end = element.find("]=");
        if (tokens_[at_].kind == Kind::kWord && runs && element.starts_with('[') &&
            key_end != std::string::npos) {
          const std::string_view raw = element;
          variable.keys.push_back(
              expand(script_.variables, raw.substr(1, key_end - 1), tokens_[at_].line).text);
          variable.values.push_back(
              expand(script_.variables, raw.substr(key_end + 2), tokens_[at_].line));
        } else if (tokens_[at_].kind == Kind::kWord && runs) {
          const auto words = expand_and_split(script_.variables, tokens_[at_].text,
                                              tokens_[at_].line, variable.values);
          note_open(words, tokens_[at_], variable.values);
          variable.values.insert(variable.values.end(), words.begin(), words.end());
        }
      }
      forget_unused(name, noted, variable);
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
    const std::size_t bracket = variable.array ? equals : std::min(token.text.find('['), equals);
    const std::string_view raw = std::string_view(token.text).substr(bracket, equals - bracket);
    Assignment given{name, {}, std::move(variable), adds, branches_.undecided()};
    if (raw.find(']') != std::string_view::npos) {
      given.key = expand(script_.variables, raw.substr(1, raw.find(']') - 1), token.line).text;
    }
    return assign(std::move(given), script_.variables);
  }

  std::vector<ShellToken> tokens_;
  const ShellWorld& world_;
  ShellScript& script_;
  std::size_t at_ = 0;
  Branches branches_;
  bool names_function_ = false;  // the next brace opens a function's body
  std::map<std::string, std::vector<ShellToken>, std::less<>>
      functions_;                                               // bodies of those called later
  std::vector<std::optional<std::vector<ShellText>>> callers_;  // their $1, $2, …
  int calls_ = 0;
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
