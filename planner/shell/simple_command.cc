#include "planner/shell/simple_command.h"

#include <algorithm>
#include <map>

#include "planner/shell/arrays.h"
#include "planner/shell/built_in.h"
#include "planner/shell/command_string.h"
#include "planner/shell/condition.h"
#include "planner/shell/names.h"
#include "planner/shell/substitution.h"

namespace trireme::planner {
namespace {

using Kind = ShellToken::Kind;

class CommandReader {
 public:
  CommandReader(TokenStream& stream, bool runs, Branches& branches, ShellVariables& variables)
      : stream_(stream), runs_(runs), branches_(branches), variables_(variables) {}

  SimpleCommand run() {
    read_.command.line = stream_.next().line;
    if (is_word(stream_.next(), "[[") && take_test()) {
      return std::move(read_);
    }
    for (; !stream_.done(); ++stream_.at) {
      const ShellToken& token = stream_.next();
      if (token.kind == Kind::kNewline) {
        break;
      }
      branches_.ask(token.text);
      if (token.kind == Kind::kWord) {
        word(token);
      } else if (!redirection(token)) {
        break;
      }
    }
    for (auto& [name, value] : own_) {  // what it runs sees them
      variables_.known[name] = std::move(value);
    }
    if (read_.command.words.empty()) {
      read_.before.clear();
    }
    return std::move(read_);
  }

 private:
  // [[ … ]] to its end: there && and < are operators of its own, and nothing is split.
  bool take_test() {
    constexpr std::size_t kWordsMost = 200;
    std::size_t end = stream_.at;
    while (end < stream_.tokens.size() && end < stream_.at + kWordsMost &&
           !is_word(stream_.tokens[end], "]]")) {
      ++end;
    }
    if (end >= stream_.tokens.size() || !is_word(stream_.tokens[end], "]]")) {
      return false;
    }
    for (; stream_.at <= end; ++stream_.at) {
      const ShellToken& token = stream_.next();
      if (token.kind == Kind::kNewline) {
        continue;
      }
      branches_.ask(token.text);
      if (!runs_) {
        continue;
      }
      std::vector<ShellText>& words = read_.command.words;
      ShellText word = token.kind == Kind::kWord ? expand(variables_, token.text, token.line)
                                                 : plain_text(token.text, token.line);
      const bool of_expression =  // ^(a|b)$ behind =~
          token.glued && words.size() > 2 && words[words.size() - 2].text == "=~";
      if (of_expression) {
        append_text(words.back(), word);
      } else {
        words.push_back(std::move(word));
      }
    }
    return true;
  }

  // A=1 run $A: words are worked out with what A was before.
  void set_apart_own() {
    if (!own_.empty()) {
      return;
    }
    for (auto& [name, value] : read_.before) {
      const auto found = variables_.known.find(name);
      own_[name] = found == variables_.known.end() ? ShellVariable() : found->second;
      if (value) {
        variables_.known[name] = *value;
      } else if (found != variables_.known.end()) {
        variables_.known.erase(found);
      }
    }
  }

  // False: the operator ends the command.
  bool redirection(const ShellToken& token) {
    std::vector<ShellText>& words = read_.command.words;
    if (token.text == "(" && runs_ && !words.empty() && words.back().text.starts_with("--")) {
      words.push_back(bracketed());
      return true;
    }
    if (token.text.find_first_of("<>") == std::string::npos) {
      return false;
    }
    const std::string kind = token.text;
    ++stream_.at;  // where it is redirected to
    if (!runs_ || stream_.done()) {
      return true;
    }
    const ShellToken& target = stream_.next();
    if (kind == ">" || kind == ">>") {
      read_.appends = kind == ">>";
      read_.output = expand(variables_, target.text, target.line).text;
    } else if (kind.starts_with("<<") && kind != "<<<" &&
               std::any_of(words.begin(), words.end(),
                           [](const ShellText& word) { return is_shell(word.text); })) {
      read_.document = target;
    } else if (const bool reads = !words.empty() &&
                                  (reads_input(words.front().text) || words.front().text == "cat");
               kind == "<<<" || (reads && kind.starts_with("<<"))) {
      read_.input = expand(variables_, target.text, target.line);
    } else if (reads && kind == "<") {
      take_file(target);
    }
    return true;
  }

  // What a file holds that the script wrote, and what <(…) writes, as far as it is known.
  void take_file(const ShellToken& target) {
    if (target.text.starts_with("<(")) {
      const std::string inside = target.text.substr(2, target.text.size() - 3);
      if (const auto output = known_output(variables_, inside, target.line)) {
        read_.input = *output;
      }
      return;
    }
    const auto written = variables_.written.find(expand(variables_, target.text, target.line).text);
    if (written != variables_.written.end()) {
      read_.input = plain_text(written->second, target.line);
    }
  }

  void word(const ShellToken& token) {
    std::vector<ShellText>& words = read_.command.words;
    const std::string name(assigned_name(token.text));
    if (!name.empty() && (words.empty() || read_.declares)) {
      const bool again = std::any_of(read_.before.begin(), read_.before.end(),
                                     [&](const auto& one) { return one.first == name; });
      if (runs_ && !read_.declares && !again) {
        const auto found = variables_.known.find(name);
        read_.before.emplace_back(
            name, found == variables_.known.end() ? std::nullopt : std::optional(found->second));
      }
      if (assignment(token, name)) {
        read_.assigned.push_back(name);
      }
      return;
    }
    if (words.empty() && declares(token.text)) {
      read_.before.clear();
    } else if (read_.declares && runs_ && assigns_by_value(token)) {
      return;
    } else if (read_.declares) {
      attribute(token.text);
    } else if (words.empty() && runs_) {
      set_apart_own();
    }
    if (runs_) {
      add_words(token, words);
    }
  }

  bool declares(const std::string& word) {
    constexpr std::string_view kDeclares[] = {"export", "declare", "local", "readonly", "typeset"};
    if (std::find(std::begin(kDeclares), std::end(kDeclares), word) == std::end(kDeclares)) {
      return false;
    }
    read_.declares = true;
    read_.exports = word == "export";
    attributes_.constant = word == "readonly";
    attributes_.local = variables_.calls > 0 && word != "export" && word != "readonly";
    return true;
  }

  // export "$KEY"="$VALUE", declare $PAIR; false: the word does not come to NAME=VALUE.
  bool assigns_by_value(const ShellToken& token) {
    if (token.text.find('$') == std::string::npos) {
      return false;
    }
    const std::size_t noted = variables_.unset_words.size();
    const ShellText whole = expand(variables_, token.text, token.line);
    const std::string name(assigned_name(whole.text));
    variables_.unset_words.resize(noted);
    if (!is_shell_name(name) || whole.text[name.size()] != '=') {
      return false;
    }
    const ShellText value = part_of_text(whole, name.size() + 1, whole.text.size());
    if (assign({.name = name,
                .value = {{value}, false},
                .undecided = branches_.undecided(),
                .attributes = attributes_},
               variables_)) {
      read_.assigned.push_back(name);
    }
    return true;
  }

  // A word of declare and its kin: a flag, or a name without a value.
  void attribute(const std::string& word) {
    if (word.size() > 1 && word[0] == '-') {
      const auto has = [&](char c) { return word.find(c) != std::string::npos; };
      read_.exports |= has('x') || (read_.exports && has('f'));
      attributes_.integer |= has('i');
      attributes_.array |= has('a');
      attributes_.associative |= has('A');
      attributes_.constant |= has('r');
      attributes_.local &= !has('g');
    } else if (is_shell_name(word)) {
      if (runs_) {
        declare(word, attributes_, variables_);
      }
      if (read_.exports) {
        read_.assigned.push_back(word);  // export NAME
      }
    }
  }

  // Where a token gives no words although something stands there, the word before it may have lost
  // its value.
  void add_words(const ShellToken& token, std::vector<ShellText>& words) {
    ShellText nothing;
    const auto more = expand_and_split(variables_, token.text, token.line, words, nothing);
    if (more.empty() && !words.empty() && token.text.find_first_of("$`") != std::string::npos) {
      words.back().open_after |= nothing.lost || nothing.outside;  // not of TP=, which sets nothing
      if (nothing.outside && is_test(words.front().text)) {
        words.push_back(nothing);  // [ $(nproc) -gt 4 ]
      }
    }
    words.insert(words.end(), more.begin(), more.end());
  }

  // ([0]*3+[1]*58) without quotes: no shell would take it, but files of bare arguments have it.
  ShellText bracketed() {
    const int line = stream_.next().line;
    std::string text = stream_.next().text;
    const std::vector<ShellToken>& tokens = stream_.tokens;
    std::size_t& at = stream_.at;
    while (at + 1 < tokens.size() && tokens[at + 1].glued &&
           tokens[at + 1].kind != Kind::kNewline && tokens[at].text != ")") {
      text += tokens[++at].text;
    }
    return plain_text(text, line);
  }

  // NODES=( $(scontrol …) ): what is missing in an array counts where the array stands as
  // arguments, not here, unless it holds some itself.
  void forget_unused(const std::string& name, std::size_t noted, ShellVariable& array) {
    std::vector<UnsetWord>& unset = variables_.unset_words;
    const bool arguments = is_named_as_arguments(name) ||
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

  static bool is_named_as_arguments(const std::string& name) {
    return name.find("ARGS") != std::string::npos || name.find("OPT") != std::string::npos;
  }

  // The elements of NAME=( … ).
  ShellVariable array(const std::string& name) {
    ShellVariable variable;
    variable.array = true;
    const std::size_t noted = variables_.unset_words.size();
    for (stream_.at += 2; !stream_.done() && !stream_.is_operator(stream_.at, ")"); ++stream_.at) {
      const ShellToken& token = stream_.next();
      const std::string& element = token.text;
      if (token.kind != Kind::kWord || !runs_) {
        continue;
      }
      const std::size_t key_end = element.find("]=");
      if (element.starts_with('[') && key_end != std::string::npos) {
        const std::string_view raw = element;
        variable.keys.push_back(expand(variables_, raw.substr(1, key_end - 1), token.line).text);
        variable.values.push_back(expand(variables_, raw.substr(key_end + 2), token.line));
      } else {
        add_words(token, variable.values);
      }
    }
    forget_unused(name, noted, variable);
    return variable;
  }

  // The value of NAME=value; a variable that is missing in it counts where it holds arguments.
  ShellVariable value(const std::string& name, std::string_view raw, int line) {
    const std::size_t noted = variables_.unset_words.size();
    ShellVariable variable{{expand(variables_, raw, line)}, false};
    const std::string& text = variable.values.front().text;
    if (text.find("--") == std::string::npos && text.find(".py") == std::string::npos &&
        !is_named_as_arguments(name)) {
      variables_.unset_words.resize(noted);
    }
    return variable;
  }

  // NAME=value, NAME+=value or NAME=( … ); true when it was kept.
  bool assignment(const ShellToken& token, const std::string& name) {
    const std::size_t equals = token.text.find('=');
    const std::string_view text = token.text;
    const bool is_array = equals + 1 == text.size() && stream_.is_operator(stream_.at + 1, "(") &&
                          stream_.tokens[stream_.at + 1].glued;
    ShellVariable variable;
    if (is_array) {
      variable = array(name);
    } else if (runs_) {
      variable = value(name, text.substr(equals + 1), token.line);
    }
    if (!runs_) {
      return false;
    }
    const bool adds = text[equals - 1] == '+';
    const std::size_t bracket = is_array ? equals : std::min(text.find('['), equals);
    const std::string_view raw = text.substr(bracket, equals - bracket);
    Assignment given{.name = name,
                     .value = std::move(variable),
                     .adds = adds,
                     .undecided = branches_.undecided(),
                     .attributes = attributes_};
    given.attributes.array = false;  // of the value, not of what is meant
    if (raw.rfind(']') != std::string_view::npos) {
      given.has_key = true;
      given.key = expand(variables_, raw.substr(1, raw.rfind(']') - 1), token.line);
    }
    return assign(std::move(given), variables_);
  }

  TokenStream& stream_;
  bool runs_;
  Branches& branches_;
  ShellVariables& variables_;
  SimpleCommand read_;
  Attributes attributes_;
  std::map<std::string, ShellVariable> own_;  // of variables that are set for the command alone
};

}  // namespace

void note_written(const SimpleCommand& command, ShellVariables& variables) {
  if (command.output.empty()) {
    return;
  }
  const std::vector<ShellText>& words = command.command.words;
  const auto found = variables.written.find(command.output);
  const bool known = !words.empty() && words[0].text == "cat" && command.input;
  if (known && !command.appends) {
    variables.written[command.output] = command.input->text;
  } else if (known && found != variables.written.end()) {
    found->second += command.input->text;
  } else if (found != variables.written.end()) {
    variables.written.erase(found);
  }
}

void restore(const SetAlone& before, ShellVariables& variables) {
  for (const auto& [name, value] : before) {
    if (value) {
      variables.known[name] = *value;
    } else {
      variables.known.erase(name);
    }
  }
}

SimpleCommand read_simple_command(TokenStream& stream, bool runs, Branches& branches,
                                  ShellVariables& variables) {
  return CommandReader(stream, runs, branches, variables).run();
}

}  // namespace trireme::planner
