// The statements of a script in order: assignments, commands, and which branches count.
#include "planner/shell/script.h"

#include <algorithm>
#include <map>
#include <utility>

#include "planner/shell/branches.h"
#include "planner/shell/built_in.h"
#include "planner/shell/condition.h"
#include "planner/shell/functions.h"
#include "planner/shell/loop_reader.h"
#include "planner/shell/names.h"
#include "planner/shell/simple_command.h"
#include "planner/shell/token_stream.h"

namespace trireme::planner {
namespace {

using Kind = ShellToken::Kind;

// The end of a function's body, between its commands.
constexpr std::string_view kReturn = "\x01return";
constexpr std::size_t kEvaluatedMost =
    100'000;  // characters of eval, against one that feeds itself

class Reader {
 public:
  Reader(std::vector<ShellToken> tokens, const ShellWorld& world, ShellScript& script)
      : stream_{std::move(tokens)},
        world_(world),
        script_(script),
        branches_(world.choice, script.undecided),
        loops_(stream_, branches_, script) {}

  void run() {
    std::string_view joint = ";";
    while (!stream_.done()) {
      if (!open_case_pattern()) {
        joint = statement(joint);
      }
    }
  }

 private:
  // `a|b)` at the start of a branch of `case`.
  bool open_case_pattern() {
    if (branches_.empty() || branches_.top().kind != Frame::Kind::kCase ||
        !branches_.top().condition) {
      return false;
    }
    const ShellToken& token = stream_.next();
    if (token.kind == Kind::kNewline || stream_.is_operator(stream_.at, "(") ||
        stream_.is_operator(stream_.at, ";;")) {
      ++stream_.at;
      return true;
    }
    if (token.text == "esac") {
      branches_.close();
      ++stream_.at;
      return true;
    }
    Frame& frame = branches_.top();
    bool matches = std::exchange(frame.falls, false);
    const int line = token.line;
    frame.question = frame.subject.text;
    while (!stream_.done() && !stream_.is_operator(stream_.at, ")")) {
      if (stream_.next().kind == Kind::kWord) {
        const ShellText pattern = expand(script_.variables, stream_.next().text, line);
        matches |= matches_pattern(frame.subject.text, pattern);
        frame.question += (frame.question.empty() ? "" : " or ") + stream_.next().text;
      }
      ++stream_.at;
    }
    ++stream_.at;
    frame.condition = false;
    const bool outside = frame.subject.outside;
    branches_.settle(outside ? std::nullopt : std::optional(matches), line);
    return true;
  }

  // Keywords at the start of a statement; true when one was taken.
  bool keyword(const ShellToken& token) {
    const std::string& word = token.text;
    const bool loops = (word == "while" || word == "until") && loops_.open_while(word == "until");
    if (loops || loops_.own_word(word)) {
      // the round that begins, or goes on, comes next
    } else if (word == "if" || word == "while" || word == "until") {
      branches_.open({.kind = word == "if" ? Frame::Kind::kIf : Frame::Kind::kLoop,
                      .condition = true,
                      .active = false});
    } else if (word == "for" || word == "select") {
      if (!loops_.open_for()) {
        branches_.open({.kind = Frame::Kind::kLoop});
      }
    } else if (word == "case") {
      open_case();
    } else if (word == kReturn) {
      leave_function();
    } else if (word == "!") {
      negates_ = !negates_;
    } else if (word == "function" && !stream_.done()) {
      const std::string name = stream_.tokens[stream_.at++].text;
      stream_.at +=
          stream_.is_operator(stream_.at, "(") && stream_.is_operator(stream_.at + 1, ")") ? 2 : 0;
      names_function_ = !keep_body(name);
    } else if (word == "{") {
      if (names_function_ && !branches_.in_function()) {
        before_function_ = script_.variables.known;
      }
      branches_.open({.kind = names_function_ ? Frame::Kind::kFunction : Frame::Kind::kGroup});
      names_function_ = false;
    } else if (!branches_.keyword(word, token.line) && word != "time") {
      return false;
    }
    if (script_.variables.in_function && !branches_.in_function()) {
      script_.variables.known = std::move(before_function_);
    }
    script_.variables.in_function = branches_.in_function();
    return true;
  }

  // `name () {`
  bool opens_function() {
    if (!stream_.is_operator(stream_.at + 1, "(") || !stream_.is_operator(stream_.at + 2, ")")) {
      return false;
    }
    const std::string name = stream_.next().text;
    stream_.at += 3;
    names_function_ = !keep_body(name);
    return true;
  }

  // Keeps the body in braces that comes next. Where the script calls the function later on, reading
  // goes on behind it; otherwise it is read where it stands too, for nobody knows who calls it, and
  // what it sets is gone behind it.
  bool keep_body(const std::string& name) {
    const auto [begin, end] = function_body(stream_.tokens, stream_.at);
    if (begin == end) {
      return false;
    }
    const auto place = [&](std::size_t index) {
      return stream_.tokens.begin() + static_cast<std::ptrdiff_t>(index);
    };
    if (branches_.active()) {
      functions_[name] = {place(begin + 1), place(end)};
    }
    if (!is_called_after(stream_.tokens, end, name)) {
      return false;
    }
    stream_.at = std::min(end + 1, stream_.tokens.size());
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
    script_.variables.hidden.emplace_back();
    const int line = words[0].lines.empty() ? 0 : words[0].lines.front();
    stream_.put_in(body->second, line, kReturn);
    return true;
  }

  void leave_function() {
    if (!callers_.empty()) {
      script_.variables.positional = callers_.back();
      callers_.pop_back();
      --script_.variables.calls;
      leave_call(script_.variables);
    }
  }

  // ((A > B)) as a command.
  void arithmetic(const ShellToken& token, bool runs) {
    ++stream_.at;
    branches_.ask(token.text);
    if (runs) {
      const std::string inside = token.text.substr(2, token.text.size() - 4);
      const auto value = raw_arithmetic(script_.variables, inside, token.line);
      last_ = value ? std::optional(*value != 0) : std::nullopt;
    }
  }

  void open_case() {
    Frame frame{.kind = Frame::Kind::kCase, .condition = true, .active = false};
    if (!stream_.done() && stream_.next().kind == Kind::kWord) {
      const std::size_t noted = script_.variables.unset_words.size();
      frame.subject = expand(script_.variables, stream_.next().text, stream_.next().line);
      script_.variables.unset_words.resize(noted);  // no argument of a command
      ++stream_.at;
    }
    while (!stream_.done() &&
           (stream_.next().kind == Kind::kNewline || stream_.next().text == "in")) {
      ++stream_.at;
    }
    branches_.open(std::move(frame));
  }

  // What is set between ( and ) is gone behind it.
  void subshell(const std::string& bracket) {
    constexpr std::size_t kOpenMost = 50;
    if (bracket == "(" && branches_.active() && outer_.size() < kOpenMost) {
      outer_.push_back(script_.variables.known);
    } else if (bracket == ")" && branches_.active() && !outer_.empty()) {
      script_.variables.known = std::move(outer_.back());
      outer_.pop_back();
    }
  }

  // One simple command, or the separator before the next. `joint` is what stood before it.
  std::string_view statement(std::string_view joint) {
    const ShellToken& first = stream_.next();
    if (first.kind != Kind::kWord) {
      stream_.at += first.text.starts_with("<<") ? 2U : 1U;  // of a loop or group, with its text
      branches_.end_of_case(first.text);
      subshell(first.text);
      return first.kind == Kind::kNewline && (joint == "&&" || joint == "||") ? joint : first.text;
    }
    if (opens_function()) {
      return ";";
    }
    ++stream_.at;
    const bool negates = first.text == "!";
    if (keyword(ShellToken(first))) {  // which may put tokens in before the next
      last_ = negates ? last_ : true;
      return negates ? joint : ";";
    }
    --stream_.at;
    const bool joined = joint == "&&" || joint == "||";
    const bool chosen = last_ || !joined || world_.choice <= 0;  // an open one counts as a branch
    const bool runs = branches_.active() && chosen && !(joint == "&&" && last_ && !*last_) &&
                      !(joint == "||" && last_ && *last_);
    const std::optional<bool> before = last_;
    if (stream_.next().text.starts_with("((")) {
      arithmetic(ShellToken(stream_.next()), runs);
    } else {
      command(runs, joined && !last_);
    }
    last_ = runs && negates_ && last_ ? std::optional(!*last_) : last_;
    negates_ = false;
    if (!runs) {
      last_ = before;
    } else if (!branches_.empty() && branches_.top().condition) {
      branches_.top().result = joined_result(joint, before, last_);
    }
    return ";";
  }

  // Reads a simple command to its end; assignments and words count when it `runs`. `open`: it does
  // where the command before it, of which the file does not say so, succeeds or fails.
  void command(bool runs, bool open) {
    const std::size_t noted = script_.variables.unset_words.size();
    SimpleCommand read = read_simple_command(stream_, runs, branches_, script_.variables);
    if (!runs) {
      return;
    }
    std::vector<ShellText>& words = read.command.words;
    if (open && !read.assigned.empty() && (words.empty() || read.declares)) {
      branches_.ask_whether(last_words_, read.command.line);
    }
    last_words_ = words_after(words, 0);
    last_ = words.empty() ? std::optional(true) : shell_condition(words);
    note_written(read, script_.variables);
    if (!words.empty() && (loops_.leaves(words[0].text) || evaluates(words) || ends(words) ||
                           sources(words) || call_function(words))) {
      return;
    }
    if (!words.empty() && changes_variables(words, read.input, read.assigned, script_.variables)) {
      restore(read, script_.variables);
      return;
    }
    exports_all_ = exports_assignments(words, exports_all_);
    if (read.exports || exports_all_ || !words.empty()) {
      export_names(read.assigned, read.command.line);
    }
    if (!read.declares && !words.empty()) {
      if (std::none_of(words.begin(), words.end(), holds_arguments)) {
        script_.variables.unset_words.resize(noted);  // cd $FOLDER
      }
      read.command.round = loops_.round();
      script_.commands.push_back(std::move(read.command));
    }
    restore(read, script_.variables);
  }

  // eval NAME=…: its words come next; false: another command. Those that start something stay
  // whole.
  bool evaluates(const std::vector<ShellText>& words) {
    if (words[0].text != "eval" || words.size() < 2 || assigned_name(words[1].text).empty()) {
      return false;
    }
    const std::string text = words_after(words, 1);
    put_in_ += text.size();
    if (put_in_ >= kEvaluatedMost) {
      return false;
    }
    const int line = words[0].lines.empty() ? 0 : words[0].lines.front();
    std::vector<ShellToken> tokens = shell_tokens(text, script_.variables.source);
    for (ShellToken& token : tokens) {
      token.line = line;
    }
    stream_.put_in(std::move(tokens), line);
    return true;
  }

  // exit: what stands behind it never runs.
  bool ends(const std::vector<ShellText>& words) {
    const bool here = words[0].text == "exit" && branches_.empty() && callers_.empty();
    stream_.at = here ? stream_.tokens.size() : stream_.at;
    return here;
  }

  // Which word names a file whose commands come next: `. FILE`; of what the script itself wrote
  // also `srun bash FILE` and `./FILE`.
  [[nodiscard]] std::optional<std::size_t> file_word(const std::vector<ShellText>& words) const {
    if (words[0].text == "source" || words[0].text == ".") {
      return words.size() > 1 ? std::optional<std::size_t>(1) : std::nullopt;
    }
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string before = i == 0 ? "" : words[i - 1].text;
      const bool shell = before == "bash" || before == "sh" || before.ends_with("/bash");
      if ((shell || words[i].text.starts_with("./")) && written_text(words[i].text) != nullptr) {
        return i;
      }
    }
    return {};
  }

  // The text of a file that the script wrote, under the same name or with ./ before one of the two.
  [[nodiscard]] const std::string* written_text(const std::string& name) const {
    const auto& written = script_.variables.written;
    for (const std::string& each :
         {name, "./" + name, name.substr(name.starts_with("./") ? 2 : 0)}) {
      if (const auto found = written.find(each); found != written.end()) {
        return &found->second;
      }
    }
    return nullptr;
  }

  // The tokens of a sourced file come next; false: another command.
  bool sources(const std::vector<ShellText>& words) {
    constexpr std::size_t kFilesMax = 40;
    const auto at = file_word(words);
    if (!at) {
      return false;
    }
    const ShellText& name = words[*at];
    const int line = name.lines.empty() ? 0 : name.lines.front();
    ShellVariables& variables = script_.variables;
    const std::string* own = written_text(name.text);
    const auto text = variables.files.size() >= kFilesMax ? std::nullopt
                      : own != nullptr                    ? std::optional(*own)
                      : world_.read && !name.outside      ? world_.read(name.text)
                                                          : std::nullopt;
    if (!text) {
      script_.unread.push_back({name.text, line});
      return true;
    }
    variables.files.push_back(name.text);
    std::vector<ShellToken> tokens = shell_tokens(*text, name.text);
    for (ShellToken& token : tokens) {
      token.line += static_cast<int>(variables.files.size()) * kLinesOfFile;
    }
    stream_.put_in(std::move(tokens), line);
    return true;
  }

  void export_names(const std::vector<std::string>& names, int line) {
    for (const std::string& name : names) {
      const auto found = script_.variables.known.find(name);
      if (found != script_.variables.known.end() && !found->second.values.empty()) {
        script_.environment.push_back({name, found->second.values.front().text, line});
      }
    }
  }

  TokenStream stream_;
  const ShellWorld& world_;
  ShellScript& script_;
  Branches branches_;
  decltype(ShellVariables::known) before_function_;  // one that is read where it stands
  bool names_function_ = false;                      // the next brace opens a function's body
  std::map<std::string, std::vector<ShellToken>, std::less<>>
      functions_;                                               // bodies of those called later
  std::vector<std::optional<std::vector<ShellText>>> callers_;  // their $1, $2, …
  int calls_ = 0;
  LoopReader loops_;
  std::vector<decltype(ShellVariables::known)> outer_;  // of the subshells that are open
  bool negates_ = false;                                // ! stands before the command
  std::size_t put_in_ = 0;                              // characters of eval so far
  std::string last_words_;                              // of the command before
  bool exports_all_ = false;                            // set -a
  std::optional<bool> last_ = true;                     // whether the last command succeeded
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
