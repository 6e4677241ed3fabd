#include "planner/shell/built_in.h"

#include <algorithm>
#include <utility>

#include "planner/shell/names.h"
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

// NAME[KEY]=value: of an array by its number, else by its key.
void set_element(ShellVariable& array, const std::string& key, const ShellText& value) {
  std::size_t at = 0;
  const bool number = !key.empty() && key.find_first_not_of("0123456789") == std::string::npos &&
                      key.size() < 7 && array.keys.empty();
  if (number) {
    at = std::min<std::size_t>(std::stoul(key), array.values.size());
  } else {
    array.keys.resize(array.values.size());
    at = static_cast<std::size_t>(std::find(array.keys.begin(), array.keys.end(), key) -
                                  array.keys.begin());
  }
  if (at == array.values.size()) {
    array.values.emplace_back();
    if (!number) {
      array.keys.push_back(key);
    }
  }
  array.array = true;
  array.values[at] = value;
}

}  // namespace

bool assign(Assignment given, ShellVariables& variables) {
  ShellVariable& known = variables.known[given.name];
  const bool one = !given.value.array;
  const bool from_outside =
      one && given.value.values.front().outside && given.value.values.front().text.empty();
  if (from_outside && given.undecided && !known.values.empty()) {
    return false;
  }
  if (!given.key.empty() && one) {
    set_element(known, given.key, given.value.values.front());
  } else if (!given.adds || known.values.empty()) {
    known = std::move(given.value);
  } else if (!one) {
    std::vector<ShellText>& more = given.value.values;
    known.values.insert(known.values.end(), more.begin(), more.end());
    known.keys.insert(known.keys.end(), given.value.keys.begin(), given.value.keys.end());
  } else {
    ShellText& text = known.values.front();
    const ShellText& more = given.value.values.front();
    text.text += more.text;
    text.lines.insert(text.lines.end(), more.lines.begin(), more.lines.end());
    text.quoted.insert(text.quoted.end(), more.quoted.begin(), more.quoted.end());
    text.outside |= more.outside;
  }
  return true;
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
  if (!variables.positional || variables.in_function) {
    return;
  }
  const std::string count = words.size() > 1 ? words[1].text : "1";
  const bool digit = count.size() == 1 && count[0] > '0' && count[0] <= '9';
  auto& all = *variables.positional;
  const auto gone = std::min<std::ptrdiff_t>(digit ? count[0] - '0' : 1, std::ssize(all));
  all.erase(all.begin(), all.begin() + gone);
}

std::optional<std::int64_t> arithmetic_statement(std::string_view text, int line,
                                                 ShellVariables& variables) {
  const auto trim = [](std::string_view part) {
    const std::size_t first = std::min(part.find_first_not_of(" \t\n"), part.size());
    return part.substr(first, part.find_last_not_of(" \t\n") + 1 - first);
  };
  text = trim(text);
  const bool counts_first = text.starts_with("++") || text.starts_with("--");
  const std::string_view sign = counts_first ? text.substr(0, 2) : std::string_view();
  text.remove_prefix(sign.size());
  std::size_t end = 0;
  while (end < text.size() && is_name_character(text[end])) {
    ++end;
  }
  const std::string name(text.substr(0, end));
  const std::string_view rest = trim(text.substr(end));
  std::string expression;
  if (counts_first || rest == "++" || rest == "--") {
    expression = name + (counts_first ? sign : rest)[0] + "1";
  } else if (rest.starts_with("=") && !rest.starts_with("==")) {
    expression = rest.substr(1);
  } else if (rest.size() > 1 && std::string_view("+-*/%").find(rest[0]) != std::string_view::npos &&
             rest[1] == '=') {
    expression = name + rest[0] + "(" + std::string(rest.substr(2)) + ")";
  } else {
    return shell_arithmetic(variables, text, line);
  }
  const auto value = shell_arithmetic(variables, expression, line);
  if (is_shell_name(name)) {
    ShellText known = plain_text(value ? std::to_string(*value) : "", line);
    known.outside = known.lost = !value;
    variables.known[name] = ShellVariable{{std::move(known)}, false};
  }
  return value;
}

void let_variables(const std::vector<ShellText>& words, ShellVariables& variables) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    arithmetic_statement(words[i].text, words[i].lines.empty() ? 0 : words[i].lines.front(),
                         variables);
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

bool changes_variables(const std::vector<ShellText>& words, const std::optional<ShellText>& input,
                       const std::vector<std::string>& assigned, ShellVariables& variables) {
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
  } else if (name == "let" || (name == "printf" && words.size() > 2 && words[1].text == "-v")) {
    name == "let" ? let_variables(words, variables) : print_into_variable(words, variables);
  } else {
    return false;
  }
  return true;
}

}  // namespace trireme::planner
