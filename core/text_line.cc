#include "core/text_line.h"

#include <fmt/format.h>

#include <charconv>

#include "core/error.h"

namespace trireme {

TextLine::TextLine(std::string_view text, std::string where) : where_(std::move(where)) {
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    if (end > begin) {
      words_.push_back(text.substr(begin, end - begin));
    }
    begin = end + 1;
  }
}

void TextLine::fail(const std::string& what) const {
  throw Error(where_, what);
}

std::string_view TextLine::word(const char* what) {
  if (done()) {
    fail(fmt::format("ends where {} should be", what));
  }
  return words_[next_++];
}

void TextLine::literal(std::string_view expected) {
  if (word("a word") != expected) {
    fail(fmt::format("\"{}\" expected, \"{}\" found", expected, words_[next_ - 1]));
  }
}

void TextLine::finish() const {
  if (!done()) {
    fail(fmt::format("\"{}\" is too much", words_[next_]));
  }
}

std::optional<std::string_view> TextLine::optional_value(std::string_view key) {
  const std::string_view next = peek();
  if (next.size() > key.size() && next.substr(0, key.size()) == key && next[key.size()] == '=') {
    ++next_;
    return next.substr(key.size() + 1);
  }
  return std::nullopt;
}

std::string_view TextLine::value(std::string_view key) {
  const auto found = optional_value(key);
  if (!found) {
    fail(fmt::format("{}= expected, \"{}\" found", key, peek()));
  }
  return *found;
}

std::int64_t TextLine::number(std::string_view text) const {
  std::int64_t result = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail(fmt::format("\"{}\" is not a whole number", text));
  }
  return result;
}

double TextLine::real(std::string_view text) const {
  double result = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail(fmt::format("\"{}\" is not a number", text));
  }
  return result;
}

}  // namespace trireme
