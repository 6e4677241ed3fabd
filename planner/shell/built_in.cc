#include "planner/shell/built_in.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "planner/shell/arrays.h"
#include "planner/shell/names.h"
#include "planner/shell/options.h"
#include "planner/shell/text_commands.h"

namespace trireme::planner {
namespace {

// At most `parts_max` parts, the last of which is the rest.
std::vector<ShellText> cut(const ShellText& input, const std::string& separators,
                           std::size_t parts_max) {
  std::vector<ShellText> parts(1);
  for (std::size_t i = 0; i < input.text.size(); ++i) {
    const char c = input.text[i];
    if (parts.size() < parts_max && separators.find(c) != std::string::npos) {
      const bool blank = c == ' ' || c == '\t';
      if (!blank || !parts.back().text.empty()) {
        parts.emplace_back();
      }
      continue;
    }
    parts.back().text += c;
    parts.back().lines.push_back(input.lines[i]);
    parts.back().quoted.push_back(false);
  }
  for (ShellText& part : parts) {
    part.outside = input.outside;
  }
  return parts;
}

// The text of a variable that was declared as a number.
ShellText integer_value(const ShellText& text, ShellVariables& variables) {
  const int line = text.lines.empty() ? 0 : text.lines.front();
  const bool open = text.outside || text.lost;
  const auto value = open ? std::nullopt : shell_arithmetic(variables, text.text, line);
  ShellText number = plain_text(value ? std::to_string(*value) : "", line);
  number.outside = number.lost = !value;
  return number;
}

// NAME=([2]=x [0]=y) of an array that no declare -A made one of keys.
ShellVariable by_number(const ShellVariable& keyed) {
  const bool whole = keyed.keys.size() == keyed.values.size();
  const bool numbers = std::all_of(keyed.keys.begin(), keyed.keys.end(), [](const auto& key) {
    return !key.empty() && key.size() < 7 &&
           key.find_first_not_of("0123456789") == std::string::npos;
  });
  if (!whole || !numbers) {
    return whole ? keyed : unknown_variable();
  }
  ShellVariables alone{.source = "", .known = {}, .unset = {}};
  for (std::size_t i = 0; i < keyed.values.size(); ++i) {
    set_element(alone, "A", plain_text(keyed.keys[i], 0), keyed.values[i], false);
  }
  return alone.known["A"];
}

// What a local variable hides is kept until its call ends.
void hide(const std::string& name, ShellVariables& variables) {
  if (variables.hidden.empty() || variables.hidden.back().contains(name)) {
    return;
  }
  const auto found = variables.known.find(name);
  variables.hidden.back()[name] =
      found == variables.known.end() ? std::nullopt : std::optional(found->second);
  if (found != variables.known.end()) {
    variables.known.erase(found);
  }
}

void take_attributes(const Attributes& attributes, ShellVariable& variable) {
  variable.integer |= attributes.integer;
  variable.associative |= attributes.associative;
  variable.array |= attributes.array || attributes.associative;
  variable.constant |= attributes.constant;
}

// One value after the other, or their sum of numbers.
void add_value(ShellVariable& known, const ShellText& more, ShellVariables& variables) {
  ShellText& text = known.values.front();
  if (!known.integer) {
    append_text(text, more);
    return;
  }
  ShellText sum = text;
  append_text(sum, plain_text("+(", 0));
  append_text(sum, more);
  append_text(sum, plain_text(")", 0));
  text = integer_value(sum, variables);
}

}  // namespace

bool assign(Assignment given, ShellVariables& variables) {
  if (given.attributes.local) {
    hide(given.name, variables);
  }
  ShellVariable& known = variables.known[given.name];
  const bool one = !given.value.array;
  const bool from_outside =
      one && given.value.values.front().outside && given.value.values.front().text.empty();
  if (known.constant || (from_outside && given.undecided && !known.values.empty())) {
    return false;
  }
  take_attributes(
      {.integer = given.attributes.integer, .associative = given.attributes.associative}, known);
  if (!known.associative && !given.value.keys.empty()) {
    given.value = by_number(given.value);
  }
  if (known.integer && !given.adds) {
    for (ShellText& value : given.value.values) {
      value = integer_value(value, variables);
    }
  }
  if (given.has_key && one) {
    set_element(variables, given.name, given.key, given.value.values.front(), given.adds);
  } else if (given.adds && !one) {
    append_elements(known, given.value);
  } else if (given.adds && !known.values.empty()) {
    add_value(known, given.value.values.front(), variables);
  } else if (known.array && one) {  // NAME=value of an array: its first element
    set_element(variables, given.name, {}, given.value.values.front(), false);
  } else {
    const Attributes kept{.integer = known.integer, .associative = known.associative};
    known = std::move(given.value);
    take_attributes(kept, known);
  }
  take_attributes(given.attributes, variables.known[given.name]);
  return true;
}

void declare(const std::string& name, const Attributes& attributes, ShellVariables& variables) {
  if (attributes.local) {
    hide(name, variables);
  }
  const bool says = attributes.integer || attributes.array || attributes.associative;
  if (says || (attributes.constant && variables.known.contains(name))) {
    take_attributes(attributes, variables.known[name]);
  }
}

void leave_call(ShellVariables& variables) {
  if (variables.hidden.empty()) {
    return;
  }
  for (auto& [name, before] : variables.hidden.back()) {
    if (before) {
      variables.known[name] = std::move(*before);
    } else {
      variables.known.erase(name);
    }
  }
  variables.hidden.pop_back();
}

bool exports_assignments(const std::vector<ShellText>& words, bool before) {
  if (words.size() < 2 || words[0].text != "set") {
    return before;
  }
  const std::string& first = words[1].text;
  const bool names = words.size() > 2 && first.ends_with('o') && words[2].text == "allexport";
  const bool all = names || first.find('a') != std::string::npos;
  return all && first.starts_with('-') ? first != "--" : before && !(all && first.starts_with('+'));
}

void shift_words(const std::vector<ShellText>& words, ShellVariables& variables) {
  if (!words_are_known(variables)) {
    return;
  }
  std::ptrdiff_t count = 1;
  if (words.size() > 1) {
    const std::string& text = words[1].text;
    std::from_chars(text.data(), text.data() + text.size(), count);
  }
  auto& all = *variables.positional;
  all.erase(all.begin(), all.begin() + std::clamp<std::ptrdiff_t>(count, 0, std::ssize(all)));
}

void let_variables(const std::vector<ShellText>& words, ShellVariables& variables) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    shell_arithmetic(variables, words[i].text, words[i].lines.empty() ? 0 : words[i].lines.front());
  }
}

void unset_variables(const std::vector<ShellText>& words, ShellVariables& variables) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& text = words[i].text;
    const std::size_t bracket = text.find('[');
    if (bracket != std::string::npos && text.ends_with(']')) {
      const std::string key = text.substr(bracket + 1, text.size() - bracket - 2);
      remove_element(variables, text.substr(0, bracket), plain_text(key, words[i].lines.front()));
    } else if (const auto found = variables.known.find(text);
               found != variables.known.end() && !found->second.constant) {
      variables.known.erase(found);
    }
  }
}

void print_into_variable(const std::vector<ShellText>& words, ShellVariables& variables) {
  std::vector<std::string> print = {"printf"};
  bool outside = false;
  for (std::size_t i = 3; i < words.size(); ++i) {
    if (i > 3 || words[i].text != "--") {
      print.push_back(words[i].text);
    }
    outside |= words[i].outside;
  }
  const auto output = output_of_command(print, "", true);
  const int line = words[2].lines.empty() ? 0 : words[2].lines.front();
  ShellText text = plain_text(output.value_or(""), line);
  text.outside = outside || !output;
  if (is_shell_name(words[2].text)) {
    variables.known[words[2].text] = ShellVariable{{std::move(text)}, false};
  }
}

bool reads_input(std::string_view command) {
  return command == "read" || command == "mapfile" || command == "readarray";
}

void read_into_variables(const std::vector<ShellText>& words, const ShellText& input,
                         const std::string& separators, ShellVariables& variables) {
  std::vector<std::string> names;
  const bool lines = words[0].text != "read";  // mapfile, readarray: every line an element
  bool array = lines;
  bool whole = lines;
  const std::string cuts = lines ? "\n" : separators;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const bool option = words[i].text.starts_with("-");
    array |= option && words[i].text.find('a') != std::string::npos;
    whole |= option && words[i].text.find('d') != std::string::npos;  // up to another character
    if (is_shell_name(words[i].text)) {
      names.push_back(words[i].text);
    }
  }
  if (names.empty()) {
    return;
  }
  ShellText text = input;
  const std::size_t end = whole ? text.text.find_last_not_of('\n') + 1 : text.text.find('\n');
  if (end < text.text.size()) {
    text.text.resize(end);
    text.lines.resize(end);
    text.quoted.resize(end);
  }
  if (array) {
    variables.known[names.front()] = ShellVariable{cut(text, cuts, text.text.size() + 1), true};
    return;
  }
  std::vector<ShellText> parts = cut(text, cuts, names.size());
  parts.resize(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    variables.known[names[i]] = ShellVariable{{std::move(parts[i])}, false};
  }
}

namespace {

// What a `read` without a known input takes comes from outside.
void read_from_outside(const std::vector<ShellText>& words, ShellVariables& variables) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    const bool of_option =
        words[i - 1].text.size() == 2 && words[i - 1].text[0] == '-' &&
        std::string_view("pntduNi").find(words[i - 1].text[1]) != std::string_view::npos;
    if (is_shell_name(words[i].text) && !of_option) {
      variables.known[words[i].text] = unknown_variable();
    }
  }
}

}  // namespace

bool changes_variables(const std::vector<ShellText>& words, const std::optional<ShellText>& input,
                       const std::vector<std::string>& assigned, ShellVariables& variables,
                       std::optional<bool>& last) {
  const std::string& name = words[0].text;
  if (name == "set" && words.size() > 1 && words[1].text == "--") {
    variables.positional.emplace(words.begin() + 2, words.end());
  } else if (name == "shift") {
    shift_words(words, variables);
  } else if (reads_input(name) && input) {
    const bool own = std::find(assigned.begin(), assigned.end(), "IFS") != assigned.end();
    const std::string cuts = own ? variables.known["IFS"].values.front().text : " \t\n";
    read_into_variables(words, *input, cuts, variables);
    if (own) {
      variables.known.erase("IFS");  // set for this command alone
    }
  } else if (reads_input(name)) {
    read_from_outside(words, variables);
  } else if (name == "getopts" && words.size() > 2) {
    last = take_option(words, variables);
  } else if (name == "unset") {
    unset_variables(words, variables);
  } else if (name == "let" || (name == "printf" && words.size() > 2 && words[1].text == "-v")) {
    name == "let" ? let_variables(words, variables) : print_into_variable(words, variables);
  } else {
    return false;
  }
  return true;
}

}  // namespace trireme::planner
