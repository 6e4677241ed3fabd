#include "planner/shell/parameter.h"

#include <algorithm>
#include <charconv>

#include "planner/shell/condition.h"
#include "planner/shell/names.h"

namespace trireme::planner {
namespace {

// Patterns are tried at every length: longer values stay as they are.
constexpr std::size_t kTriedMax = 4096;

// The value without the shortest, or the longest, part at one of its ends that the pattern fits.
std::string without_end(const std::string& value, std::string_view pattern, bool longest,
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

std::string replaced(const std::string& value, std::string_view from, std::string_view to,
                     bool all) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t found = value.find(from); found != std::string::npos && !from.empty();
       found = value.find(from, at)) {
    out.append(value, at, found - at).append(to);
    at = found + from.size();
    if (!all) {
      break;
    }
  }
  return out + value.substr(at);
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

std::string part_of(const std::string& value, std::string_view rest) {
  const auto number = [](std::string_view text) {
    std::int64_t found = 0;
    const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
    std::from_chars(text.data() + begin, text.data() + text.size(), found);
    return found;
  };
  const auto size = static_cast<std::int64_t>(value.size());
  const std::size_t colon = rest.find(':');
  std::int64_t begin = number(rest.substr(0, colon));
  begin = std::clamp<std::int64_t>(begin < 0 ? size + begin : begin, 0, size);
  std::int64_t end = size;
  if (colon != std::string_view::npos) {
    const std::int64_t length = number(rest.substr(colon + 1));
    end = std::clamp<std::int64_t>(length < 0 ? size + length : begin + length, begin, size);
  }
  return value.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

}  // namespace

BraceForm brace_form(std::string_view inside) {
  constexpr std::string_view kSpecial = "@*#?$!-";
  constexpr std::string_view kAlternatives = "-=+?";
  BraceForm form;
  form.counts = inside.size() > 1 && inside.front() == '#';
  inside.remove_prefix(form.counts ? 1 : 0);
  std::size_t end = 0;
  while (end < inside.size() && is_name_character(inside[end])) {
    ++end;
  }
  if (end == 0 && !inside.empty() && kSpecial.find(inside[0]) != std::string_view::npos) {
    form.all_words = true;
    form.rest = inside;
    return form;
  }
  form.name = inside.substr(0, end);
  if (end < inside.size() && inside[end] == '[') {
    const std::size_t close = std::min(inside.find(']', end), inside.size() - 1);
    form.index = inside.substr(end + 1, close - end - 1);
    end = close + 1;
  }
  form.as_written = form.rest = inside.substr(std::min(end, inside.size()));
  form.colon = form.rest.starts_with(":") && form.rest.size() > 1 &&
               kAlternatives.find(form.rest[1]) != std::string_view::npos;
  form.rest.remove_prefix(form.colon ? 1 : 0);
  form.operation = form.rest.empty() ? ' ' : form.rest.front();
  return form;
}

std::optional<std::string> edited_value(const std::string& value, char operation,
                                        std::string_view rest) {
  const bool doubled = !rest.empty() && rest.front() == operation;
  if ((operation == '%' || operation == '#') && value.size() <= kTriedMax) {
    return without_end(value, rest.substr(doubled ? 1 : 0), doubled, operation == '#');
  }
  if (operation == '/') {
    rest.remove_prefix(doubled ? 1 : 0);
    const std::size_t cut = std::min(rest.find('/'), rest.size());
    return replaced(value, rest.substr(0, cut), rest.substr(std::min(cut + 1, rest.size())),
                    doubled);
  }
  if (operation == '^' || operation == ',') {
    return in_case(value, operation == '^', doubled);
  }
  if (operation == ':') {
    return part_of(value, rest);
  }
  return {};
}

}  // namespace trireme::planner
