// The statements of a script in order: assignments, commands, and which branches count.
#include "planner/shell/script.h"

#include <algorithm>
#include <utility>

#include "planner/shell/branches.h"
#include "planner/shell/built_in.h"
#include "planner/shell/calls.h"
#include "planner/shell/cases.h"
#include "planner/shell/condition.h"
#include "planner/shell/functions.h"
#include "planner/shell/loop_reader.h"
#include "planner/shell/simple_command.h"
#include "planner/shell/structure.h"
#include "planner/shell/token_stream.h"

namespace trireme::planner {
namespace {

using Kind = ShellToken::Kind;

class ScriptReader {
 public:
  ScriptReader(std::vector<ShellToken> tokens, const ShellWorld& world, ShellScript& script)
      : stream_{std::move(tokens)},
        world_(world),
        script_(script),
        branches_(world.choice, script.undecided),
        loops_(stream_, branches_, script),
        calls_(stream_, branches_, loops_, world, script) {}

  void run() {
    Joint joint = Joint::kNone;
    while (!stream_.done()) {
      if (!read_case_pattern(stream_, branches_, script_.variables)) {
        joint = statement(joint);
      }
    }
  }

 private:
  // One simple command, what opens or ends a compound one, or the separator before the next.
  // `joint` is what stood before it; returns that of the next.
  Joint statement(Joint joint) {
    const ShellToken first = stream_.next();
    if (first.kind != Kind::kWord && first.text != "(" && first.text != ")") {
      return separator(first, joint);
    }
    if (opens_function()) {
      return Joint::kNone;
    }
    if (first.text == "!" || first.text == "time") {
      negates_ = negates_ != (first.text == "!");
      ++stream_.at;
      return joint;
    }
    if (branches_.is_end(first.text)) {
      ++stream_.at;
      end_frame();
      return Joint::kNone;
    }
    const Joined joined{joint, last_, std::exchange(negates_, false),
                        joint == Joint::kNone ? std::string() : last_words_};
    ++stream_.at;
    if (opens_frame(first, joined) || keyword(first)) {
      return Joint::kNone;
    }
    if (first.kind != Kind::kWord) {  // a bracket that closes nothing
      return Joint::kNone;
    }
    --stream_.at;
    const bool runs = branches_.active() && runs_here(joined);
    const std::size_t calls = calls_.depth();
    if (first.text.starts_with("((")) {
      arithmetic(first, runs);
    } else {
      command(runs, joined);
    }
    if (calls_.depth() <= calls) {  // otherwise what it stands for comes next
      finish(joined, runs);
    }
    return Joint::kNone;
  }

  Joint separator(const ShellToken& token, Joint joint) {
    const bool redirects = token.text.find_first_of("<>") != std::string::npos;
    stream_.at += redirects ? 2U : 1U;  // of a loop or group, with its target
    branches_.end_of_case(token.text);
    if (token.kind == Kind::kNewline || redirects) {
      return joint;
    }
    return token.text == "&&" ? Joint::kAnd : token.text == "||" ? Joint::kOr : Joint::kNone;
  }

  // An open one counts as a branch.
  [[nodiscard]] bool runs_here(const Joined& joined) const {
    return joined.runs() && (!joined.open() || world_.choice <= 0);
  }

  // Behind a command: whether all that it is joined with succeeded.
  void finish(const Joined& joined, bool runs) {
    last_ = runs ? joined.result(last_) : joined.before;
    if (runs && !branches_.empty() && branches_.top().condition) {
      branches_.top().result = last_;
    }
  }

  void open(Frame frame, const Joined& joined) {
    frame.joined = joined;
    frame.runs = runs_here(joined);
    branches_.open(std::move(frame));
    last_ = true;
  }

  void end_frame() {
    last_ = branches_.status(last_);
    Frame frame = std::move(branches_.top());
    branches_.close();
    if (frame.outer) {
      script_.variables.known = std::move(*frame.outer);
    }
    finish(frame.joined, frame.runs && branches_.active());
    if (script_.variables.in_function && !branches_.in_function()) {
      script_.variables.known = std::move(before_function_);
      script_.variables.in_function = false;
    }
  }

  // if, case, loops, { and (.
  bool opens_frame(const ShellToken& token, const Joined& joined) {
    const std::string& word = token.text;
    if (word == "(" && token.kind == Kind::kOperator) {
      Frame frame{.kind = Frame::Kind::kSubshell};
      if (branches_.active() && runs_here(joined)) {
        frame.outer = copy_of_values(script_.variables);
      }
      open(std::move(frame), joined);
    } else if (word == "{") {
      if (names_function_ && !branches_.in_function()) {
        before_function_ = script_.variables.known;
      }
      open({.kind = names_function_ ? Frame::Kind::kFunction : Frame::Kind::kGroup}, joined);
      names_function_ = false;
      script_.variables.in_function = branches_.in_function();
    } else if (word == "case") {
      open(read_case(stream_, script_.variables), joined);
    } else if (word == "if") {
      open({.kind = Frame::Kind::kIf, .condition = true, .active = false}, joined);
    } else if (word == "while" || word == "until") {
      if (!loops_.open_while(word == "until")) {
        open({.kind = Frame::Kind::kLoop, .condition = true, .active = false}, joined);
      }
    } else if (word == "for" || word == "select") {
      if (!loops_.open_for()) {
        open({.kind = Frame::Kind::kLoop}, joined);
      }
    } else {
      return false;
    }
    return true;
  }

  // Other keywords at the start of a statement; true when one was taken.
  bool keyword(const ShellToken& token) {
    const std::string& word = token.text;
    if (loops_.own_word(word, last_)) {
      return true;
    }
    if (word == kReturn) {
      if (const auto call = calls_.close(last_)) {
        last_ = call->first;
        finish(call->second, true);
      }
      return true;
    }
    if (word == "function" && !stream_.done()) {
      const std::string name = stream_.tokens[stream_.at++].text;
      stream_.at +=
          stream_.is_operator(stream_.at, "(") && stream_.is_operator(stream_.at + 1, ")") ? 2 : 0;
      names_function_ = !keep_body(name);
      return true;
    }
    if (word == "}") {  // closes nothing
      return true;
    }
    if (!branches_.keyword(word, token.line)) {
      return false;
    }
    last_ = true;
    return true;
  }

  // `name () {`
  bool opens_function() {
    if (!stream_.is_operator(stream_.at + 1, "(") || !stream_.is_operator(stream_.at + 2, ")") ||
        stream_.next().text.ends_with('=')) {  // NAME=()
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
      calls_.keep_function(name, {place(begin + 1), place(end)});
    }
    if (!is_called_after(stream_.tokens, end, name)) {
      return false;
    }
    stream_.at = std::min(end + 1, stream_.tokens.size());
    return true;
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

  // Reads a simple command to its end; assignments and words count when it `runs`.
  void command(bool runs, const Joined& joined) {
    const std::size_t noted = script_.variables.unset_words.size();
    SimpleCommand read = read_simple_command(stream_, runs, branches_, script_.variables);
    if (!runs) {
      return;
    }
    std::vector<ShellText>& words = read.command.words;
    if (words.empty() && read.assigned.empty()) {
      script_.variables.unset_words.resize(noted);  // if $(ssh …); then
    }
    if (!read.assigned.empty() && (words.empty() || read.declares)) {
      ask_around(joined, read.command.line);
    }
    last_words_ = words_after(words, 0);
    last_ = words.empty() || read.declares ? std::optional(true)
                                           : shell_condition(words, script_.variables);
    note_written(read, script_.variables);
    if (!words.empty() && (loops_.leaves(words[0].text, calls_.loops_outside()) ||
                           calls_.leaves(words, joined, last_))) {
      return;
    }
    if (!words.empty() &&
        changes_variables(words, read.input, read.assigned, script_.variables, last_)) {
      restore(read.before, script_.variables);
      return;
    }
    exports_all_ = exports_assignments(words, exports_all_);
    export_names(read);
    if (!words.empty() && calls_.open(read, joined)) {
      return;
    }
    if (!read.declares && !words.empty()) {
      if (std::none_of(words.begin(), words.end(), holds_arguments)) {
        script_.variables.unset_words.resize(noted);  // cd $FOLDER
      }
      read.command.round = loops_.round();
      read.command.lead = calls_.lead();
      script_.commands.push_back(std::move(read.command));
    }
    restore(read.before, script_.variables);
  }

  // Assignments that hold where the file does not say so.
  void ask_around(const Joined& joined, int line) {
    if (joined.open()) {
      branches_.ask_whether(joined.after, line);
    }
    branches_.ask_around(line);
  }

  void export_names(const SimpleCommand& read) {
    ShellVariables& variables = script_.variables;
    const bool alone = !read.declares && !read.command.words.empty();  // A=1 run
    for (const std::string& name : read.assigned) {
      const bool exported = read.exports || (exports_all_ && !alone);
      if (exported) {
        variables.exported.insert(name);
      }
      const auto found = variables.known.find(name);
      if ((exported || alone || variables.exported.contains(name)) &&
          found != variables.known.end() && !found->second.values.empty()) {
        script_.environment.push_back({name, found->second.values.front().text, read.command.line});
      }
    }
  }

  TokenStream stream_;
  const ShellWorld& world_;
  ShellScript& script_;
  Branches branches_;
  LoopReader loops_;
  Calls calls_;
  ShellValues before_function_;      // one that is read where it stands
  bool names_function_ = false;      // the next brace opens a function's body
  bool negates_ = false;             // ! stands before the command
  std::string last_words_;           // of the command before
  bool exports_all_ = false;         // set -a
  std::optional<bool> last_ = true;  // whether the last command succeeded
};

}  // namespace

ShellScript read_shell(std::string_view text, const std::string& source, const ShellWorld& world) {
  ShellScript script;
  script.variables.source = source;
  for (const auto& [name, value] : world.variables) {
    script.variables.known[name] = ShellVariable{{plain_text(value, 0)}, false};
    script.variables.exported.insert(name);
  }
  if (!world.words.empty()) {
    script.variables.positional.emplace();
    for (const std::string& word : world.words) {
      script.variables.positional->push_back(plain_text(word, 0));
    }
  }
  ScriptReader(script_tokens(text, source), world, script).run();
  return script;
}

}  // namespace trireme::planner
