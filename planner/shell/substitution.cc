#include "planner/shell/substitution.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "planner/shell/built_in.h"
#include "planner/shell/condition.h"
#include "planner/shell/names.h"
#include "planner/shell/text_commands.h"
#include "planner/shell/tokens.h"

namespace trireme::planner {
namespace {

using Words = std::vector<std::string>;
using Output = std::optional<std::string>;
using Kind = ShellToken::Kind;

constexpr int kNestedMax = 20;

// What a command of a list does: whether it succeeds, and what it prints.
struct Result {
  std::optional<bool> succeeds = true;
  std::string output = {};
};

// Whether Ascend's module is there: scripts are read for GPUs.
bool asks_for_npu(const Words& words) {
  return words.size() == 3 && (words[0] == "python" || words[0] == "python3") && words[1] == "-c" &&
         words[2].starts_with("import torch_npu");
}

// `&>/dev/null`, `2>&1` of a command that prints nothing: where it leads changes no output.
bool loses_nothing(const ShellToken& redirection, const ShellToken& target, const Words& words) {
  constexpr std::string_view kRedirections[] = {">", ">>", "&>", "&>>", ">&", ">|"};
  const bool silent = !words.empty() && (words.front() == "cd" || asks_for_npu(words));
  return silent && target.kind == Kind::kWord &&
         std::find(std::begin(kRedirections), std::end(kRedirections), redirection.text) !=
             std::end(kRedirections);
}

// One command of a pipeline: its words and what it is given to read.
struct Part {
  std::vector<ShellText> shell_words;
  Words words;
  Output input;
};

class Substitution {
 public:
  Substitution(ShellVariables& variables, std::string_view command, int line)
      : variables_(variables), line_(line), tokens_(shell_tokens(command, variables.source)) {}
  Substitution(const Substitution&) = delete;
  Substitution& operator=(const Substitution&) = delete;
  Substitution(Substitution&&) = delete;
  Substitution& operator=(Substitution&&) = delete;
  // What is set inside is gone behind it.
  ~Substitution() {
    if (outer_) {
      variables_.known = std::move(*outer_);
    }
  }

  // A; B && C || D
  Output run() {
    std::string all;
    std::optional<bool> before = true;
    std::string_view joint = ";";
    while (skip_ends(), at_ < tokens_.size()) {
      const bool joined = joint == "&&" || joint == "||";
      if (joined && !before) {
        return {};
      }
      const bool runs = !joined || *before == (joint == "&&");
      const auto result = pipeline(runs);
      if (!result) {
        return {};
      }
      before = runs ? result->succeeds : before;
      all += result->output;
      joint = at_ < tokens_.size() ? std::string_view(tokens_[at_].text) : ";";
    }
    return all;
  }

 private:
  void skip_ends() {
    while (at_ < tokens_.size() &&
           (tokens_[at_].kind == Kind::kNewline || is_operator({";", "&&", "||"}))) {
      ++at_;
    }
  }

  [[nodiscard]] bool is_operator(std::initializer_list<std::string_view> texts) const {
    return tokens_[at_].kind == Kind::kOperator &&
           std::find(texts.begin(), texts.end(), tokens_[at_].text) != texts.end();
  }

  // A | B; nothing where its output is not known. One that does not run is passed over.
  std::optional<Result> pipeline(bool runs) {
    Result result;
    Output piped;
    while (true) {
      auto part = command(runs);
      if (!part) {
        return {};
      }
      const bool more = at_ < tokens_.size() && is_operator({"|"});
      if (runs) {
        part->input = part->input ? part->input : piped;
        const auto one = result_of(*part, !part->input);
        if (!one) {
          return {};
        }
        result = *one;
        piped = one->output;
      }
      if (!more) {
        return result;
      }
      ++at_;
    }
  }

  // The words up to the next operator; nothing where one is not known.
  std::optional<Part> command(bool runs) {
    Part part;
    const bool tests = at_ < tokens_.size() && is_word(tokens_[at_], "[[");
    for (bool inside = tests; at_ < tokens_.size(); ++at_) {
      const ShellToken& token = tokens_[at_];
      if (token.kind == Kind::kWord) {
        inside = inside && token.text != "]]";
        if (runs && !take_word(token, tests, part)) {
          return {};
        }
      } else if (inside) {
        part.shell_words.push_back(plain_text(token.text, line_));
      } else if (token.kind == Kind::kNewline || is_operator({";", "&&", "||", "|"})) {
        break;
      } else if (!redirection(runs, part)) {
        return {};
      }
    }
    return part;
  }

  bool take_word(const ShellToken& token, bool tests, Part& part) {
    if (tests) {
      part.shell_words.push_back(expand(variables_, token.text, line_));
      return true;
    }
    ShellText whole;
    std::vector<ShellText> more = expand_and_split(variables_, token.text, line_, whole);
    const bool of_test = !part.words.empty() && is_test(part.words.front());
    if (whole.outside && !of_test) {
      return false;
    }
    if (whole.outside && more.empty()) {
      more.push_back(whole);  // [ $(nproc) -gt 4 ]
    }
    for (ShellText& word : more) {
      part.words.push_back(word.text);
      part.shell_words.push_back(std::move(word));
    }
    return true;
  }

  // <<< TEXT, a here-document, < FILE of what the script wrote.
  bool redirection(bool runs, Part& part) {
    const ShellToken& token = tokens_[at_];
    if (at_ + 1 >= tokens_.size()) {
      return false;
    }
    const ShellToken& target = tokens_[++at_];
    if (!runs || loses_nothing(token, target, part.words)) {
      return true;
    }
    if (token.text.starts_with("<<")) {
      const ShellText text = expand(variables_, target.text, line_);
      part.input = text.text + (token.text == "<<<" ? "\n" : "");
      return !text.outside;
    }
    const auto written =
        token.text == "<" ? variables_.written.find(target.text) : variables_.written.end();
    if (written != variables_.written.end()) {
      part.input = written->second;
    }
    return written != variables_.written.end();
  }

  std::optional<Result> result_of(const Part& part, bool first) {
    if (part.shell_words.empty()) {
      return part.input ? std::optional(Result{true, *part.input}) : std::nullopt;  // $(< FILE)
    }
    const std::string& name = part.shell_words.front().text;
    if (auto same = own(part, name)) {
      return same;
    }
    if (asks_for_npu(part.words)) {
      return Result{false};
    }
    if (is_test(name) || name == "true" || name == "false" || name == ":") {
      return Result{shell_condition(part.shell_words, variables_)};
    }
    const auto written = part.words.size() == 2 && name == "cat"
                             ? variables_.written.find(part.words[1])
                             : variables_.written.end();
    const Output output = written != variables_.written.end()
                              ? Output(written->second)
                              : output_of_command(part.words, part.input.value_or(""), first);
    return output ? std::optional(Result{true, *output}) : std::nullopt;
  }

  // ((A > B)), NAME=value, cd FOLDER and pwd. The folder is the one that the script starts in, as
  // for names in `source`.
  std::optional<Result> own(const Part& part, const std::string& name) {
    if (part.words.size() == 1 && name.starts_with("((") && name.ends_with("))")) {
      const auto value = shell_arithmetic(variables_, name.substr(2, name.size() - 4), line_);
      return Result{value ? std::optional(*value != 0) : std::nullopt};
    }
    if (const std::string set(assigned_name(name)); part.words.size() == 1 && !set.empty()) {
      if (!outer_) {
        outer_ = copy_of_values(variables_);
      }
      ShellText value = part.shell_words.front();
      value = plain_text(value.text.substr(value.text.find('=') + 1), line_);
      assign({.name = set, .value = ShellVariable{{value}, false}}, variables_);
      return Result{};
    }
    if (name == "cd" && part.words.size() >= 2) {
      folder_ = (folder_ / part.words.back()).lexically_normal();
      return Result{};
    }
    return name == "pwd" && part.words.size() == 1
               ? std::optional(Result{true, folder_.string() + "\n"})
               : std::nullopt;
  }

  ShellVariables& variables_;
  int line_;
  std::vector<ShellToken> tokens_;
  std::size_t at_ = 0;
  std::filesystem::path folder_ = ".";  // where a cd leads
  std::optional<ShellValues> outer_;
};

}  // namespace

std::optional<ShellText> known_output(ShellVariables& variables, std::string_view command,
                                      int line) {
  if (variables.substitutions >= kNestedMax) {
    return {};
  }
  ++variables.substitutions;
  Output text = Substitution(variables, command, line).run();
  --variables.substitutions;
  if (!text) {
    return {};
  }
  text->erase(text->find_last_not_of('\n') + 1);
  return plain_text(*text, line);
}

}  // namespace trireme::planner
