#include "planner/shell/expander.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/error.h"
#include "planner/shell/names.h"
#include "planner/shell/nested.h"
#include "planner/shell/parameter.h"
#include "planner/shell/substitution.h"
#include "planner/shell/tokens.h"

namespace trireme::planner {
namespace {

constexpr std::size_t kExpandedMax = 4'000'000;
constexpr int kDepthMax = 50;
constexpr std::size_t kUnsetWordsMax = 1000;

ShellText without_marks(const ShellText& text) {
  ShellText rest;
  rest.outside = text.outside;
  rest.lost = text.lost;
  rest.open_after = text.open_after;
  for (std::size_t i = 0; i < text.text.size(); ++i) {
    if (text.text[i] != kEmptyWord || text.quoted[i]) {
      put_character(rest, text.text[i], text.lines[i], text.quoted[i]);
    }
  }
  return rest;
}

}  // namespace

ShellText Expander::run_marked(std::string_view raw, int line) {
  ShellText out;
  walk(raw, line, false, out);
  return out;
}

ShellText Expander::run(std::string_view raw, int line, bool in_quotes) {
  ShellText text;
  walk(raw, line, in_quotes, text);
  return text.text.find(kEmptyWord) == kNotFound ? text : without_marks(text);
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
  if (i == 0 && !in_quotes && (raw.starts_with("<(") || raw.starts_with(">("))) {
    out.outside = out.lost = true;  // the name of a pipe
    return raw.size();
  }
  if (c == '\'' && !in_quotes) {
    const std::size_t end = std::min(raw.find('\'', i + 1), raw.size());
    if (end == i + 1) {
      put_character(out, kEmptyWord, line, false);
    }
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
  const std::size_t size = out.text.size();
  const bool lost = out.lost;
  out.lost = false;
  std::size_t at = i + 1;
  while (at < raw.size() && raw[at] != '"') {
    at = step(raw, at, line, true, out);
  }
  const std::string_view inside = raw.substr(i + 1, at - i - 1);
  const bool all = inside.find('@') != kNotFound;  // "${NAME[@]}" and "$@" of nothing give no word
  if (out.text.size() == size && !out.lost && !all) {
    put_character(out, kEmptyWord, line, false);
  }
  out.lost |= lost;
  return std::min(at + 1, raw.size());
}

std::size_t Expander::dollar(std::string_view raw, std::size_t i, int line, bool in_quotes,
                             ShellText& out) {
  const auto ends_word = [](char c) {
    return std::string_view(" \t\n\r\"\\").find(c) != kNotFound;
  };
  const bool starts = out.text.empty() || ends_word(out.text.back()) || out.text.back() == '=';
  missing_ = {};
  missing_command_ = false;
  const std::size_t end = take_dollar(raw, i, line, in_quotes, out);
  if (!missing_.empty() && starts && (end >= raw.size() || ends_word(raw[end])) &&
      variables_.unset_words.size() < kUnsetWordsMax) {
    const std::size_t last = out.text.find_last_not_of(" \t\n\r");
    const std::size_t before =
        last == kNotFound ? kNotFound : out.text.find_last_of(" \t\n\r", last);
    variables_.unset_words.push_back(
        {std::string(missing_), line,
         last == kNotFound ? "" : out.text.substr(before + 1, last - before), missing_command_});
  }
  missing_ = {};
  return end;
}

std::size_t Expander::take_dollar(std::string_view raw, std::size_t i, int line, bool in_quotes,
                                  ShellText& out) {
  if ((raw[i + 1] == '\'' || raw[i + 1] == '"') && !in_quotes) {
    const std::size_t end = std::min(after_dollar_quote(raw, i), raw.size());
    if (raw[i + 1] == '"') {
      return double_quotes(raw, i + 1, line, out);
    }
    escaped(raw.substr(i + 2, end - std::min(end, i + 3)), line, out);
    return end;
  }
  if (raw[i + 1] == '(' || raw[i + 1] == '{' || raw[i + 1] == '[') {
    const std::size_t end = after_bracket(raw, i + 1);
    if (end == std::string_view::npos) {
      throw Error(place_of(variables_, line),
                  "the bracket after $ does not close; a closing one would be right");
    }
    const std::string_view inside = raw.substr(i + 2, end - i - 3);
    if (raw[i + 1] == '{') {
      braces(inside, line, in_quotes, out);
    } else if (raw[i + 1] == '[') {
      calculated(inside, line, in_quotes, out);
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
    append(variables_.named ? *variables_.named : plain_text(variables_.source, line), in_quotes,
           out);
  } else if (!counted || !words_are_known(variables_)) {
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
    if (in_quotes && between == ' ' && values[i].text.empty()) {
      put_character(out, kEmptyWord, line, false);
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
  const bool lost = out.lost;
  out.lost = false;
  calculated(arithmetic ? inside.substr(1, inside.size() - 2) : inside.substr(5), line, in_quotes,
             out);
  missing_command_ = out.lost;
  missing_ = out.lost ? inside : std::string_view();
  out.lost |= lost;
}

void Expander::calculated(std::string_view raw, int line, bool in_quotes, ShellText& out) {
  const auto result = raw_arithmetic(variables_, raw, line);
  if (result) {
    number(*result, line, in_quotes, out);
  }
  out.outside |= !result;
  out.lost |= !result;
}

void Expander::escaped(std::string_view inside, int line, ShellText& out) {
  constexpr std::string_view kLetters = "abefnrtv";
  constexpr std::string_view kMeans = "\a\b\x1b\f\n\r\t\v";
  for (std::size_t i = 0; i < inside.size(); ++i) {
    char c = inside[i];
    if (c == '\\' && i + 1 < inside.size()) {
      c = inside[++i];
      int value = 0;
      const int base = c == 'x' ? 16 : 8;
      const std::size_t begin = c == 'x' ? i + 1 : i;
      const std::size_t most = std::min(inside.size(), begin + (c == 'x' ? 2 : 3));
      const auto [stop, failure] =
          std::from_chars(inside.data() + begin, inside.data() + most, value, base);
      if (failure == std::errc()) {
        c = static_cast<char>(value);
        i = static_cast<std::size_t>(stop - inside.data()) - 1;
      } else if (const std::size_t letter = kLetters.find(c); letter != kNotFound) {
        c = kMeans[letter];
      }
    }
    put_character(out, c, line, true);
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
    const bool mark = from.text[i] == kEmptyWord && !from.quoted[i];
    put_character(out, from.text[i], from.lines[i], in_quotes && !mark);
  }
  out.outside |= from.outside;
  out.lost |= from.lost;
}

}  // namespace trireme::planner
