#include "planner/launch/quoting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace trireme::planner {
namespace {

// One character of UTF-8, or the byte alone where it begins none.
struct Character {
  std::uint32_t code = 0;
  std::size_t size = 1;
  bool valid = false;
};

Character character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i]));
  };
  const std::uint32_t first = byte(at);
  const std::size_t size = first < 0x80   ? 1
                           : first < 0xC2 ? 0
                           : first < 0xE0 ? 2
                           : first < 0xF0 ? 3
                           : first < 0xF5 ? 4
                                          : 0;
  if (size == 0 || at + size > text.size()) {
    return {first, 1, false};
  }
  std::uint32_t code = size == 1 ? first : first & (0x7FU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(at + i) & 0xC0U) != 0x80) {
      return {first, 1, false};
    }
    code = code << 6U | (byte(at + i) & 0x3FU);
  }
  const bool overlong = (size == 3 && code < 0x800) || (size == 4 && code < 0x10000);
  const bool outside = (code >= 0xD800 && code < 0xE000) || code > 0x10FFFF;
  return overlong || outside ? Character{first, 1, false} : Character{code, size, true};
}

// Ends a line or hides what follows somewhere: control characters, NEL, line and paragraph
// separators, marks of writing direction, the byte-order mark.
bool is_hidden(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 || code == 0x2029 ||
         (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
}

// `escape` writes a character that may not stand there as itself; empty: it may.
template <typename Escape>
std::string rewritten(std::string_view text, Escape escape) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    const std::string other = escape(character);
    out += other.empty() ? std::string(text.substr(at, character.size)) : other;
    at += character.size;
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) {
  return rewritten(text, [](const Character& character) -> std::string {
    if (character.valid && !is_hidden(character.code)) {
      return "";
    }
    return character.code < 0x100 ? fmt::format("\\x{:02x}", character.code)
                                  : fmt::format("\\u{:04x}", character.code);
  });
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(text);
  }
  std::string word = "'";
  for (const char c : text) {
    word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return word + "'";
}

std::string quoted(std::string_view text) {
  return "\"" +
         rewritten(text,
                   [](const Character& character) -> std::string {
                     if (!character.valid) {
                       return "\\ufffd";
                     }
                     if (character.code == '"' || character.code == '\\') {
                       return std::string("\\") + static_cast<char>(character.code);
                     }
                     return is_hidden(character.code) ? fmt::format("\\u{:04x}", character.code)
                                                      : "";
                   }) +
         "\"";
}

}  // namespace trireme::planner
