// An error is one line of bounded length, whatever the input held.
#include "core/error.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Error, JoinsPlaceAndReason) {
  EXPECT_STREQ(Error("a.json#/b", "is 3; a string is expected").what(),
               "a.json#/b: is 3; a string is expected");
}

TEST(Error, StaysOneLine) {
  EXPECT_STREQ(Error("a\nb", "c\td\r\n").what(), "a b: c d  ");
}

TEST(Error, BytesOfNoCharacterAreQuestionMarks) {
  EXPECT_STREQ(Error("a\xff", "last read: '\xc3' and \xc3\xa9, cut \xe2\x82").what(),
               "a?: last read: '?' and \xc3\xa9, cut ??");
}

TEST(Error, CutsALongTextBetweenCharacters) {
  std::string text;
  while (text.size() < 10'000) {
    text += "é";
  }
  const std::string line = Error("x" + text, text).what();
  EXPECT_LT(line.size(), 4000U);
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (static_cast<unsigned char>(line[i]) == 0xC3U) {
      EXPECT_EQ(static_cast<unsigned char>(line[i + 1]), 0xA9U) << i;
    }
  }
}

}  // namespace
}  // namespace trireme
