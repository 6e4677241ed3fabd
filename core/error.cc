#include "core/error.h"

#include <string_view>
#include <utility>

namespace trireme {
namespace {

// How many bytes the character at `at` has in UTF-8; nothing when no character starts there.
std::size_t character_size(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const std::size_t size = first < 0x80U                     ? 1
                           : first >= 0xC2U && first < 0xE0U ? 2
                           : first >= 0xE0U && first < 0xF0U ? 3
                           : first >= 0xF0U && first < 0xF5U ? 4
                                                             : 0;
  for (std::size_t i = at + 1; i < at + size; ++i) {
    if (i >= text.size() || (static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) {
      return 0;
    }
  }
  return size;
}

// One line of bounded length, whatever the input held: a file may have a key of a megabyte, or a
// line break or bytes of no character in one.
std::string one_line(std::string text) {
  constexpr std::size_t kLengthMax = 1500;
  if (text.size() > kLengthMax) {
    std::size_t end = kLengthMax;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
      --end;  // not inside a character
    }
    text.resize(end);
    text += " …";
  }
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t size = character_size(text, i);
    if (size == 0) {
      text[i] = '?';
    } else if (static_cast<unsigned char>(text[i]) < 0x20U || text[i] == '\x7f') {
      text[i] = ' ';
    }
    i += size == 0 ? 1 : size;
  }
  return text;
}

}  // namespace

Error::Error(std::string where, const std::string& what, ErrorKind error_kind)
    : std::runtime_error(one_line(std::move(where)) + ": " + one_line(what)), kind_(error_kind) {}

}  // namespace trireme
