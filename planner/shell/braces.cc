#include "planner/shell/braces.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "planner/shell/tokens.h"

namespace trireme::planner {
namespace {

constexpr std::size_t kWordsMost = 1000;
constexpr std::size_t kWordMost = 4096;  // every brace looks for its end
constexpr int kBraceDepthMost = 20;

// The index behind what protects its braces: quotes, \x and $…; `at` where nothing does.
std::size_t after_protected(std::string_view raw, std::size_t at) {
  const char c = raw[at];
  if (c == '\\') {
    return std::min(at + 2, raw.size());
  }
  if (c == '\'' || c == '"' || c == '`') {
    return std::min(after_quote(raw, at), raw.size());
  }
  const bool bracket =
      c == '$' && at + 1 < raw.size() && (raw[at + 1] == '{' || raw[at + 1] == '(');
  return bracket ? std::min(after_bracket(raw, at + 1), raw.size()) : at;
}

// The commas of the braces that open at `open`, between their two ends; empty: they do not close.
std::vector<std::size_t> cuts_of(std::string_view raw, std::size_t open) {
  std::vector<std::size_t> cuts = {open};
  int depth = 0;
  for (std::size_t i = open; i < raw.size();) {
    if (const std::size_t end = after_protected(raw, i); end != i) {
      i = end;
      continue;
    }
    depth += raw[i] == '{' ? 1 : raw[i] == '}' ? -1 : 0;
    if (depth == 0 || (depth == 1 && raw[i] == ',')) {
      cuts.push_back(i);
    }
    if (depth == 0) {
      return cuts;
    }
    ++i;
  }
  return {};
}

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t value = 0;
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = failure == std::errc() && stop == text.data() + text.size();
  return whole && value > -1'000'000'000 && value < 1'000'000'000 ? std::optional(value)
                                                                  : std::nullopt;
}

bool is_padded(std::string_view text) {
  text.remove_prefix(text.starts_with('-') ? 1 : 0);
  return text.size() > 1 && text[0] == '0';
}

// 1..8 and 8..1..2; empty: none.
std::vector<std::string> sequence(std::string_view inside) {
  const std::size_t first = inside.find("..");
  if (first == kNotFound) {
    return {};
  }
  const std::size_t second = inside.find("..", first + 2);
  const std::string_view from = inside.substr(0, first);
  const std::string_view to =
      inside.substr(first + 2, second == kNotFound ? kNotFound : second - first - 2);
  const auto begin = number_in(from);
  const auto end = number_in(to);
  const auto step =
      second == kNotFound ? std::optional<std::int64_t>(1) : number_in(inside.substr(second + 2));
  if (!begin || !end || !step) {
    return {};
  }
  const std::size_t width = is_padded(from) || is_padded(to) ? std::max(from.size(), to.size()) : 0;
  const std::int64_t by = std::max<std::int64_t>(1, *step < 0 ? -*step : *step);
  const std::int64_t sign = *begin <= *end ? 1 : -1;
  std::vector<std::string> words;
  for (std::int64_t value = *begin; (*end - value) * sign >= 0 && words.size() < kWordsMost;
       value += sign * by) {
    words.push_back(fmt::format("{:0{}}", value, width));
  }
  return words;
}

void expand_into(std::string_view raw, int depth, std::vector<std::string>& words) {
  for (std::size_t i = 0; i < raw.size() && depth < kBraceDepthMost;) {
    if (const std::size_t end = after_protected(raw, i); end != i) {
      i = end;
      continue;
    }
    const std::vector<std::size_t> cuts =
        raw[i] == '{' ? cuts_of(raw, i) : std::vector<std::size_t>();
    std::vector<std::string> parts;
    if (cuts.size() == 2) {
      parts = sequence(raw.substr(cuts[0] + 1, cuts[1] - cuts[0] - 1));
    }
    for (std::size_t k = 0; cuts.size() > 2 && k + 1 < cuts.size(); ++k) {
      expand_into(raw.substr(cuts[k] + 1, cuts[k + 1] - cuts[k] - 1), depth + 1, parts);
    }
    if (parts.empty()) {
      ++i;
      continue;
    }
    std::vector<std::string> rests;
    expand_into(raw.substr(cuts.back() + 1), depth + 1, rests);
    for (const std::string& part : parts) {
      for (const std::string& rest : rests) {
        if (words.size() < kWordsMost) {
          std::string word(raw.substr(0, i));
          word += part;
          word += rest;
          words.push_back(std::move(word));
        }
      }
    }
    return;
  }
  words.emplace_back(raw);
}

}  // namespace

std::vector<std::string> without_braces(std::string_view raw) {
  std::vector<std::string> words;
  if (raw.find('{') == kNotFound || raw.size() > kWordMost) {
    words.emplace_back(raw);
  } else {
    expand_into(raw, 0, words);
  }
  return words;
}

}  // namespace trireme::planner
