// Which command of a script is its training.
#include <fmt/format.h>

#include <algorithm>

#include "planner/launch/launch_command.h"
#include "planner/shell/command_string.h"

namespace trireme::planner {
namespace {

bool is_python(const ShellText& word) {
  return word.text.ends_with(".py");
}

// Programs that are no Python file.
bool is_console_program(const ShellText& word) {
  constexpr std::string_view kPrograms[] = {"swift", "megatron", "llamafactory-cli", "trl",
                                            "axolotl"};
  return std::find(std::begin(kPrograms), std::end(kPrograms), word.text) != std::end(kPrograms);
}

// A script that never starts what it puts together: the variable that holds the whole command, else
// every variable that holds arguments, in the order of their lines.
std::vector<ShellText> command_in_variables(const ShellScript& script,
                                            bool (*counts)(std::string_view word)) {
  std::vector<ShellText> whole;
  std::vector<std::vector<ShellText>> parts;
  for (const auto& [name, variable] : script.variables.known) {
    for (std::vector<ShellText>& words : commands_of_words(variable.values)) {
      if (std::none_of(words.begin(), words.end(),
                       [&](const ShellText& word) { return counts(word.text); })) {
        continue;
      }
      if (std::any_of(words.begin(), words.end(), is_python) && words.size() > whole.size()) {
        whole = words;
      }
      parts.push_back(std::move(words));
    }
  }
  if (!whole.empty()) {
    return whole;
  }
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
    return first_line(a.front()) < first_line(b.front());
  });
  std::vector<ShellText> all;
  for (const std::vector<ShellText>& words : parts) {
    all.insert(all.end(), words.begin(), words.end());
  }
  return all;
}

struct Candidate {
  std::vector<ShellText> words;
  std::ptrdiff_t arguments = 0;
  int line = 0;
  std::string round;
};

std::string place_of_candidate(const Candidate& one, const LaunchConfig& config) {
  return fmt::format("{}{}{}", line_of(config, one.line), one.round.empty() ? "" : " with ",
                     one.round);
}

// echo $CMD: what a script prints is judged where it starts nothing.
bool prints(const Candidate& one) {
  return one.words.front().text == "echo" || one.words.front().text == "printf";
}

bool says_the_same(const Candidate& one, const Candidate& best) {
  return std::equal(one.words.begin(), one.words.end(), best.words.begin(), best.words.end(),
                    [](const ShellText& a, const ShellText& b) { return a.text == b.text; });
}

// Arguments that no command takes: bash would look for a program of that name.
void remark_bare(const Candidate& bare, LaunchConfig& config) {
  if (!bare.words.empty()) {
    config.remarks.push_back(fmt::format(
        "{} ({}) starts a command of its own: the line before it does not go on (a comment, or no "
        "\\ at its end); it counts nowhere",
        bare.words.front().text, line_of(config, first_line(bare.words.front()))));
  }
}

// Which of several commands is judged: those that say at least half as much as it are others that
// one may have meant.
void remark_candidates(const std::vector<Candidate>& all, const Candidate& best,
                       LaunchConfig& config) {
  constexpr std::size_t kNamed = 4;
  std::vector<std::string> others;
  for (const Candidate& one : all) {
    const bool same =
        (one.line == best.line && one.round == best.round) || says_the_same(one, best);
    if (!same && one.arguments * 2 >= best.arguments) {
      others.push_back(place_of_candidate(one, config));
    }
  }
  if (others.empty()) {
    return;
  }
  const std::size_t more = others.size() - std::min(others.size(), kNamed);
  others.resize(others.size() - more);
  config.remarks.push_back(
      fmt::format("it starts {} commands: the one of {} is judged, and not {}{}",
                  others.size() + more + 1, place_of_candidate(best, config),
                  fmt::join(others, "; "), more > 0 ? fmt::format(" and {} more", more) : ""));
}

// Behind the program's name: the last Python file before the first of its arguments (python
// submit.py --nodes 8 -- accelerate launch train.py --lr 1), else the first one.
std::vector<ShellText>::const_iterator end_of_launcher(const std::vector<ShellText>& words,
                                                       bool (*counts)(std::string_view word)) {
  const auto first = std::find_if(words.begin(), words.end(),
                                  [&](const ShellText& word) { return counts(word.text); });
  for (auto word = first; word != words.begin(); --word) {
    if (is_python(*(word - 1))) {
      return word;
    }
  }
  if (std::any_of(words.begin(), first, is_console_program)) {
    return first;  // a .py behind it is a flag's value: swift rlhf … --external_plugins plugin.py
  }
  const auto program = std::find_if(words.begin(), words.end(), is_python);
  return program == words.end() ? first : program + 1;
}

}  // namespace

LaunchCommand training_command(const ShellScript& script, bool (*counts)(std::string_view word),
                               LaunchConfig& config) {
  std::vector<Candidate> all;
  Candidate bare;  // lines of a file that holds nothing but arguments
  const auto consider = [&](Candidate one) {
    one.arguments = std::count_if(one.words.begin(), one.words.end(),
                                  [&](const ShellText& word) { return counts(word.text); });
    if (one.arguments > 0) {
      all.push_back(std::move(one));
    }
  };
  for (const ShellCommand& command : script.commands) {
    if (!command.words.empty() && counts(command.words.front().text)) {
      bare.words.insert(bare.words.end(), command.words.begin(), command.words.end());
    } else {
      for (const std::vector<ShellText>& words : commands_of_words(command.words)) {
        std::vector<ShellText> all_words = command.lead;
        all_words.insert(all_words.end(), words.begin(), words.end());
        consider({std::move(all_words), 0, command.line, command.round});
      }
    }
  }
  if (!std::all_of(all.begin(), all.end(), prints)) {
    std::erase_if(all, prints);
  }
  if (all.empty()) {
    consider(std::move(bare));
  } else {
    remark_bare(bare, config);
  }
  const auto most = std::max_element(
      all.begin(), all.end(),
      [](const Candidate& a, const Candidate& b) { return a.arguments < b.arguments; });
  std::vector<ShellText> best;
  if (most == all.end()) {
    best = command_in_variables(script, counts);
  } else {
    remark_candidates(all, *most, config);
    best = std::move(most->words);
  }
  const auto cut = end_of_launcher(best, counts);
  return {std::vector<ShellText>(best.cbegin(), cut), std::vector<ShellText>(cut, best.cend())};
}

}  // namespace trireme::planner
