// One line of a text format cut at spaces and read from the left. Every problem is an Error that
// names the line.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class TextLine {
 public:
  // `where` is FILE:LINE. `text` must outlive the line.
  TextLine(std::string_view text, std::string where);

  [[noreturn]] void fail(const std::string& what) const;
  [[nodiscard]] bool done() const { return next_ == words_.size(); }
  [[nodiscard]] std::string_view peek() const {
    return done() ? std::string_view() : words_[next_];
  }
  // The next word; `what` names it in the Error when the line has ended.
  std::string_view word(const char* what);
  void literal(std::string_view expected);
  // Error when something is left.
  void finish() const;
  // The value of the next word when it is KEY=VALUE with this key.
  std::optional<std::string_view> optional_value(std::string_view key);
  std::string_view value(std::string_view key);
  [[nodiscard]] std::int64_t number(std::string_view text) const;
  [[nodiscard]] double real(std::string_view text) const;
  std::int64_t number_of(std::string_view key) { return number(value(key)); }
  // A number that fits an index type.
  template <typename Index>
  [[nodiscard]] Index index(std::string_view text) const {
    const std::int64_t result = number(text);
    if (result < 0 || static_cast<std::uint64_t>(result) > std::numeric_limits<Index>::max()) {
      fail(std::string(text) + " is out of range");
    }
    return static_cast<Index>(result);
  }

 private:
  std::vector<std::string_view> words_;
  std::size_t next_ = 0;
  std::string where_;
};

}  // namespace trireme
