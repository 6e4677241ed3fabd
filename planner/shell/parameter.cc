#include "planner/shell/parameter.h"

#include <algorithm>

#include "planner/shell/condition.h"
#include "planner/shell/names.h"
#include "planner/shell/tokens.h"

namespace trireme::planner {
namespace {

// Patterns are tried at every length: longer values stay as they are.
constexpr std::size_t kTriedMax = 4096;

// The value without the shortest, or the longest, part at one of its ends that the pattern fits.
std::string without_end(const std::string& value, const ShellText& pattern, bool longest,
                        bool at_front) {
  std::string best = value;
  for (std::size_t size = 0; size <= value.size(); ++size) {
    const std::string_view part = at_front ? std::string_view(value).substr(0, size)
                                           : std::string_view(value).substr(value.size() - size);
    if (!matches_pattern(part, pattern)) {
      continue;
    }
    best = at_front ? value.substr(size) : value.substr(0, value.size() - size);
    if (!longest) {
      break;
    }
  }
  return best;
}

// The longest part from `at` on that the pattern fits; nothing: none does.
std::optional<std::size_t> longest_match(std::string_view value, std::size_t at,
                                         const ShellText& pattern) {
  for (std::size_t size = value.size() - at; size > 0; --size) {
    if (matches_pattern(value.substr(at, size), pattern)) {
      return size;
    }
  }
  return {};
}

// ${NAME/from/to}, //: all of them, /#: at the front, /%: at the end.
std::string replaced(const std::string& value, const ShellText& rest) {
  const char mark = rest.text.empty() || rest.quoted[0] ? ' ' : rest.text[0];
  const bool marked = mark == '/' || mark == '#' || mark == '%';
  const std::size_t begin = marked ? 1 : 0;
  std::size_t cut = begin;
  while (cut < rest.text.size() && (rest.text[cut] != '/' || rest.quoted[cut])) {
    ++cut;
  }
  const ShellText from = part_of_text(rest, begin, cut);
  const std::string to = rest.text.substr(std::min(cut + 1, rest.text.size()));
  if (from.text.empty()) {
    return mark == '#' ? to + value : mark == '%' ? value + to : value;
  }
  if (mark == '%') {
    const std::string kept = without_end(value, from, true, false);
    return kept.size() < value.size() ? kept + to : value;
  }
  std::string out;
  bool goes_on = true;
  for (std::size_t at = 0; at < value.size();) {
    const auto size = goes_on ? longest_match(value, at, from) : std::nullopt;
    out += size ? to : value.substr(at, 1);
    at += size.value_or(1);
    goes_on = goes_on && mark != '#' && (mark == '/' || !size);
  }
  return out;
}

std::string in_case(std::string value, bool upper, bool all) {
  const auto end =
      all ? value.end() : value.begin() + std::min<std::ptrdiff_t>(1, std::ssize(value));
  std::transform(value.begin(), end, value.begin(), [upper](char c) {
    const bool lower_letter = c >= 'a' && c <= 'z';
    const bool upper_letter = c >= 'A' && c <= 'Z';
    return upper && lower_letter    ? static_cast<char>(c - 32)
           : !upper && upper_letter ? static_cast<char>(c + 32)
                                    : c;
  });
  return value;
}

}  // namespace

BraceForm brace_form(std::string_view inside) {
  constexpr std::string_view kSpecial = "@*#?$!-";
  constexpr std::string_view kAlternatives = "-=+?";
  BraceForm form;
  form.counts = inside.size() > 1 && inside.front() == '#' &&
                (is_name_character(inside[1]) || inside[1] == '@' || inside[1] == '*');
  form.indirect = inside.size() > 1 && inside.front() == '!' && is_name_character(inside[1]);
  inside.remove_prefix(form.counts || form.indirect ? 1 : 0);
  std::size_t end = 0;
  while (end < inside.size() && is_name_character(inside[end])) {
    ++end;
  }
  if (end == 0 && !inside.empty() && kSpecial.find(inside[0]) != std::string_view::npos) {
    end = 1;
  }
  form.name = inside.substr(0, end);
  if (end < inside.size() && inside[end] == '[') {
    const std::size_t close = std::min(after_bracket(inside, end), inside.size());
    form.index = inside.substr(end + 1, close - std::min(close, end + 2));
    end = close;
  }
  form.rest = inside.substr(std::min(end, inside.size()));
  form.colon = form.rest.starts_with(":") && form.rest.size() > 1 &&
               kAlternatives.find(form.rest[1]) != std::string_view::npos;
  form.rest.remove_prefix(form.colon ? 1 : 0);
  form.operation = form.rest.empty() ? ' ' : form.rest.front();
  return form;
}

bool names_all(const BraceForm& form) {
  return form.name == "@" || form.name == "*" || form.index == "@" || form.index == "*";
}

std::optional<std::string> edited_value(const std::string& value, char operation,
                                        const ShellText& rest) {
  if (value.size() > kTriedMax) {
    return {};
  }
  const bool doubled = !rest.text.empty() && rest.text.front() == operation && !rest.quoted[0];
  if (operation == '%' || operation == '#') {
    const ShellText pattern = part_of_text(rest, doubled ? 1 : 0, rest.text.size());
    return without_end(value, pattern, doubled, operation == '#');
  }
  if (operation == '/') {
    return replaced(value, rest);
  }
  if ((operation == '^' || operation == ',') && rest.text.size() == (doubled ? 1U : 0U)) {
    return in_case(value, operation == '^', doubled);
  }
  return {};
}

std::pair<std::string_view, std::optional<std::string_view>> offset_and_length(
    std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += std::string_view("([{?").find(text[i]) != std::string_view::npos ? 1 : 0;
    if (text[i] == ':' && depth == 0) {
      return {text.substr(0, i), text.substr(i + 1)};
    }
    depth -= std::string_view(")]}:").find(text[i]) != std::string_view::npos ? 1 : 0;
  }
  return {text, std::nullopt};
}

std::optional<std::pair<std::int64_t, std::int64_t>> slice_bounds(
    std::int64_t size, std::int64_t offset, std::optional<std::int64_t> length, bool of_text) {
  const std::int64_t begin = offset < 0 ? size + offset : offset;
  if (begin < 0 || begin > size) {
    return std::pair(size, size);
  }
  const std::int64_t most = size - begin;
  if (length && *length < 0) {
    const std::int64_t end = size + *length;
    return of_text && end >= begin ? std::optional(std::pair(begin, end)) : std::nullopt;
  }
  return std::pair(begin, begin + std::min(length.value_or(most), most));
}

}  // namespace trireme::planner
