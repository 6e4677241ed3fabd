#include "planner/shell/expander.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/error.h"
#include "planner/shell/names.h"
#include "planner/shell/parameter.h"
#include "planner/shell/substitution.h"
#include "planner/shell/tokens.h"

namespace trireme::planner {
namespace {

constexpr std::size_t kExpandedMax = 4'000'000;
constexpr int kDepthMax = 50;
constexpr std::size_t kUnsetWordsMax = 1000;
constexpr std::size_t kNone = std::string_view::npos;

class Nested {
 public:
  explicit Nested(int& depth) : depth_(depth) { ++depth_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
  Nested(Nested&&) = delete;
  Nested& operator=(Nested&&) = delete;
  ~Nested() { --depth_; }

 private:
  int& depth_;
};

}  // namespace

ShellText Expander::run(std::string_view raw, int line, bool in_quotes) {
  ShellText out;
  walk(raw, line, in_quotes, out);
  return out;
}

void Expander::walk(std::string_view raw, int line, bool in_quotes, ShellText& out) {
  if (variables_.depth >= kDepthMax) {
    throw Error(place_of(variables_, line), "has too many nested brackets");
  }
  const Nested nested(variables_.depth);
  for (std::size_t i = 0; i < raw.size();) {
    i = step(raw, i, line, in_quotes, out);
  }
}

std::size_t Expander::step(std::string_view raw, std::size_t i, int& line, bool in_quotes,
                           ShellText& out) {
  const char c = raw[i];
  const bool more = i + 1 < raw.size();
  if (c == '\'' && !in_quotes) {
    const std::size_t end = std::min(raw.find('\'', i + 1), raw.size());
    empty_quotes |= end == i + 1;
    for (std::size_t k = i + 1; k < end; ++k) {
      put_character(out, raw[k], line, true);
      line += raw[k] == '\n' ? 1 : 0;
    }
    return std::min(end + 1, raw.size());
  }
  if (c == '"' && !in_quotes) {
    return double_quotes(raw, i, line, out);
  }
  if (c == '\\' && more) {
    const char next = raw[i + 1];
    if (next == '\n') {
      ++line;
    } else {
      if (in_quotes && std::string_view("$`\"\\").find(next) == std::string_view::npos) {
        put_character(out, c, line, true);
      }
      put_character(out, next, line, true);
    }
    return i + 2;
  }
  if (c == '`') {
    const std::size_t end = std::min(raw.find('`', i + 1), raw.size());
    substitution(raw.substr(i + 1, end - i - 1), line, in_quotes, out);
    return std::min(end + 1, raw.size());
  }
  if (c == '$' && more) {
    return dollar(raw, i, line, in_quotes, out);
  }
  put_character(out, c, line, in_quotes);
  line += c == '\n' ? 1 : 0;
  return i + 1;
}

std::size_t Expander::double_quotes(std::string_view raw, std::size_t i, int& line,
                                    ShellText& out) {
  std::size_t at = i + 1;
  if (at < raw.size() && raw[at] == '"') {
    empty_quotes = true;
  }
  while (at < raw.size() && raw[at] != '"') {
    at = step(raw, at, line, true, out);
  }
  return std::min(at + 1, raw.size());
}

std::size_t Expander::dollar(std::string_view raw, std::size_t i, int line, bool in_quotes,
                             ShellText& out) {
  const auto ends_word = [](char c) { return std::string_view(" \t\n\r\"\\").find(c) != kNone; };
  const bool starts = out.text.empty() || ends_word(out.text.back()) || out.text.back() == '=';
  missing_ = {};
  missing_command_ = false;
  const std::size_t end = take_dollar(raw, i, line, in_quotes, out);
  if (!missing_.empty() && starts && (end >= raw.size() || ends_word(raw[end])) &&
      variables_.unset_words.size() < kUnsetWordsMax) {
    const std::size_t last = out.text.find_last_not_of(" \t\n\r");
    const std::size_t before = last == kNone ? kNone : out.text.find_last_of(" \t\n\r", last);
    variables_.unset_words.push_back(
        {std::string(missing_), line,
         last == kNone ? "" : out.text.substr(before + 1, last - before), missing_command_});
  }
  missing_ = {};
  return end;
}

std::size_t Expander::take_dollar(std::string_view raw, std::size_t i, int line, bool in_quotes,
                                  ShellText& out) {
  if (raw[i + 1] == '(' || raw[i + 1] == '{') {
    const std::size_t end = after_bracket(raw, i + 1);
    if (end == std::string_view::npos) {
      throw Error(place_of(variables_, line),
                  "the bracket after $ does not close; a closing one would be right");
    }
    const std::string_view inside = raw.substr(i + 2, end - i - 3);
    if (raw[i + 1] == '{') {
      braces(inside, line, in_quotes, out);
    } else {
      substitution(inside, line, in_quotes, out);
    }
    return end;
  }
  std::size_t end = i + 1;
  if (is_name_character(raw[end]) && (raw[end] < '0' || raw[end] > '9')) {
    while (end < raw.size() && is_name_character(raw[end])) {
      ++end;
    }
    value(raw.substr(i + 1, end - i - 1), "", line, in_quotes, out);
    return end;
  }
  if (std::string_view("0123456789@*#?$!-").find(raw[end]) != std::string_view::npos) {
    special(raw.substr(end, 1), line, in_quotes, out);
    return end + 1;
  }
  put_character(out, '$', line, in_quotes);
  return i + 1;
}

void Expander::number(std::int64_t value, int line, bool in_quotes, ShellText& out) {
  for (const char c : std::to_string(value)) {
    put_character(out, c, line, in_quotes);
  }
}

void Expander::special(std::string_view name, int line, bool in_quotes, ShellText& out) {
  variables_.uses_words |= name != "0" && !variables_.in_function && variables_.calls == 0;
  const bool counted =
      name == "@" || name == "*" || name == "#" || (name[0] > '0' && name[0] <= '9');
  if (name == "0") {
    append(plain_text(variables_.source, line), in_quotes, out);
  } else if (!counted || !variables_.positional || variables_.in_function) {
    out.outside = out.lost = true;
  } else if (name == "#") {
    number(static_cast<std::int64_t>(variables_.positional->size()), line, in_quotes, out);
  } else if (name == "@" || name == "*") {
    joined(*variables_.positional, 0, line, in_quotes, out);
  } else if (const auto at = static_cast<std::size_t>(number_in(name));
             at <= variables_.positional->size()) {
    append((*variables_.positional)[at - 1], in_quotes, out);
  }
}

std::int64_t Expander::number_in(std::string_view digits) {
  std::int64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return std::clamp<std::int64_t>(value, 1, 1'000'000);
}

void Expander::joined(const std::vector<ShellText>& values, std::size_t first, int line,
                      bool in_quotes, ShellText& out, char between) {
  for (std::size_t i = first; i < values.size(); ++i) {
    if (i > first) {
      put_character(out, between, line, between != ' ');
    }
    append(values[i], in_quotes, out);
  }
}

void Expander::substitution(std::string_view inside, int line, bool in_quotes, ShellText& out) {
  const bool arithmetic = inside.starts_with("(") && inside.ends_with(")");
  if (!arithmetic && !inside.starts_with("expr ")) {
    const auto result = known_output(variables_, inside, line);
    if (result) {
      append(*result, in_quotes, out);
    } else {
      missing_ = inside;
      missing_command_ = true;
      out.outside = out.lost = true;
    }
    return;
  }
  inside = arithmetic ? inside.substr(1, inside.size() - 2) : inside.substr(5);
  const ShellText plain = Expander(variables_).run(inside, line);
  const auto result = plain.lost ? std::nullopt : shell_arithmetic(variables_, plain.text, line);
  if (result) {
    number(*result, line, in_quotes, out);
  }
  out.outside |= !result || plain.outside;
  out.lost |= !result;
}

void Expander::braces(std::string_view inside, int line, bool in_quotes, ShellText& out) {
  const BraceForm form = brace_form(inside);
  if (form.all_words) {
    all_positional(form.rest, line, in_quotes, out);
    return;
  }
  if (form.counts) {
    number(size_of(form), line, in_quotes, out);
    return;
  }
  const char op = form.operation;
  const bool positional = !form.name.empty() && form.name[0] >= '0' && form.name[0] <= '9';
  if (positional && (!variables_.positional || variables_.in_function) && form.name != "0") {
    const bool falls_back = (op == '-' || op == '=') && !variables_.in_function;
    if (falls_back) {  // as it runs without words, which were not given
      variables_.uses_words = true;
      alternative(form.name, form.rest.substr(1), false, line, in_quotes, out);
    }
    out.outside |= !falls_back;
    out.lost |= !falls_back;
    return;
  }
  const bool present = is_set(form.name, form.colon);
  if (op == '+' || ((op == '-' || op == '=') && !present)) {
    if (op != '+' || present) {
      alternative(form.name, form.rest.substr(1), op == '=', line, in_quotes, out);
      out.lost |= form.rest.size() == 1;  // ${TP:-}: whoever starts it may set it
    }
    return;
  }
  const std::size_t begin = out.text.size();
  value(form.name, form.index, line, in_quotes, out);
  if (!form.rest.empty() && op != '?') {
    edit(begin, form.as_written, line, in_quotes, out);
  }
}

std::int64_t Expander::size_of(const BraceForm& form) const {
  const auto found = variables_.known.find(form.name);
  if (found == variables_.known.end() || found->second.values.empty()) {
    return 0;
  }
  const std::vector<ShellText>& values = found->second.values;
  return form.index.empty() ? std::ssize(values.front().text) : std::ssize(values);
}

void Expander::all_positional(std::string_view inside, int line, bool in_quotes, ShellText& out) {
  const std::string_view from = inside.size() > 2 && inside[1] == ':' ? inside.substr(2) : "";
  if (from.empty() || !variables_.positional || variables_.in_function) {
    special(inside.substr(0, 1), line, in_quotes, out);
    return;
  }
  joined(*variables_.positional, static_cast<std::size_t>(number_in(from) - 1), line, in_quotes,
         out);
}

void Expander::edit(std::size_t begin, std::string_view operation, int line, bool in_quotes,
                    ShellText& out) {
  const ShellText worked = Expander(variables_).run(operation.substr(1), line);
  const auto changed = edited_value(out.text.substr(begin), operation.front(), worked.text);
  if (!changed) {
    return;
  }
  out.text.resize(begin);
  out.lines.resize(begin);
  out.quoted.resize(begin);
  out.outside |= worked.outside;
  append(plain_text(*changed, line), in_quotes, out);
}

void Expander::alternative(std::string_view name, std::string_view raw, bool assigns, int line,
                           bool in_quotes, ShellText& out) {
  ShellText text;
  walk(raw, line, false, text);
  if (assigns) {
    variables_.known[std::string(name)] = ShellVariable{{text}, false};
  }
  append(text, in_quotes, out);
}

bool Expander::is_set(std::string_view name, bool not_empty) const {
  if (!name.empty() && name[0] > '0' && name[0] <= '9') {
    const auto at = static_cast<std::size_t>(number_in(name));
    return at <= variables_.positional->size() &&
           !(not_empty && (*variables_.positional)[at - 1].text.empty());
  }
  const auto found = variables_.known.find(name);
  return found != variables_.known.end() && !found->second.values.empty() &&
         !(not_empty && found->second.values.front().text.empty());
}

void Expander::value(std::string_view name, std::string_view index, int line, bool in_quotes,
                     ShellText& out) {
  if (name == "BASH_SOURCE") {
    append(plain_text(file_of(variables_, line), line), in_quotes, out);
    return;
  }
  if (!name.empty() && name[0] >= '0' && name[0] <= '9') {
    special(name, line, in_quotes, out);
    return;
  }
  const auto found = variables_.known.find(name);
  if (found == variables_.known.end()) {
    variables_.unset.insert(std::string(name));  // as bash: nothing
    missing_ = name;
    out.lost = true;
    return;
  }
  const std::vector<ShellText>& values = found->second.values;
  if (values.size() == 1 && values[0].text.empty() && (values[0].outside || values[0].lost)) {
    missing_ = name;
    missing_command_ = values[0].open_after;
  }
  if (index == "@" || index == "*") {
    const auto separators = variables_.known.find("IFS");
    const bool own = index == "*" && in_quotes && separators != variables_.known.end() &&
                     !separators->second.values.empty() &&
                     !separators->second.values.front().text.empty();
    joined(values, 0, line, in_quotes, out, own ? separators->second.values.front().text[0] : ' ');
    return;
  }
  const ShellText which = index.empty() ? ShellText() : Expander(variables_).run(index, line);
  const std::string& place = which.text;
  if (which.lost || which.outside) {  // ${SIZES[$SLURM_ARRAY_TASK_ID]}: any of them
    missing_ = name;
    out.lost = true;
    return;
  }
  const std::vector<std::string>& keys = found->second.keys;
  std::int64_t element = 0;
  if (!keys.empty()) {
    element = std::find(keys.begin(), keys.end(), place) - keys.begin();
  } else if (!place.empty()) {
    element = shell_arithmetic(variables_, place, line).value_or(0);
  }
  if (element >= 0 && element < static_cast<std::int64_t>(values.size())) {
    append(values[static_cast<std::size_t>(element)], in_quotes, out);
  }
}

void Expander::append(const ShellText& from, bool in_quotes, ShellText& out) {
  variables_.expanded += from.text.size();
  if (variables_.expanded > kExpandedMax) {
    throw Error(variables_.source, fmt::format("variables grow beyond {} characters; a script "
                                               "that does not repeat itself would be right",
                                               kExpandedMax));
  }
  for (std::size_t i = 0; i < from.text.size(); ++i) {
    put_character(out, from.text[i], from.lines[i], in_quotes);
  }
  out.outside |= from.outside;
  out.lost |= from.lost;
}

}  // namespace trireme::planner
