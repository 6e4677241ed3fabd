#include "core/error.h"

#include <utility>

namespace trireme {
namespace {

// One line of bounded length, whatever the input held: a file may have a key of a megabyte, or a
// line break in one.
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
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20U || c == '\x7f') {
      c = ' ';
    }
  }
  return text;
}

}  // namespace

Error::Error(std::string where, const std::string& what, ErrorKind error_kind)
    : std::runtime_error(one_line(std::move(where)) + ": " + one_line(what)), kind_(error_kind) {}

}  // namespace trireme
