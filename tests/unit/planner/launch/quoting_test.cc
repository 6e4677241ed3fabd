#include "planner/launch/field_table.h"

#include <gtest/gtest.h>

namespace trireme::planner {
namespace {

TEST(Quoting, WhatCommentsShowHoldsNoLineEndOfAnySyntax) {
  EXPECT_EQ(printable("llama-3.1-8b"), "llama-3.1-8b");
  EXPECT_EQ(printable("a\nrm -rf x\r\v\x1b[2J\x7f"), "a\\x0arm -rf x\\x0d\\x0b\\x1b[2J\\x7f");
  EXPECT_EQ(printable("modèle 模型"), "modèle 模型");
  // NEL, the line separator of Unicode, a mark that turns the direction.
  EXPECT_EQ(printable("a\xc2\x85 b\xe2\x80\xa8 c\xe2\x80\xae"), "a\\x85 b\\u2028 c\\u202e");
  // A byte that begins nothing, an overlong slash, half a character.
  EXPECT_EQ(printable("\xff \xc0\xaf \xe6\xa8"), "\\xff \\xc0\\xaf \\xe6\\xa8");
}

TEST(Quoting, AWordOfTheShellMeansItself) {
  EXPECT_EQ(shell_word("out/run-1.sh"), "out/run-1.sh");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("$(x) `y` \"z\""), "'$(x) `y` \"z\"'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("~root"), "'~root'");
}

TEST(Quoting, AStringEscapesWhatTomlYamlPythonAndJsonWouldRead) {
  EXPECT_EQ(quoted("8B"), "\"8B\"");
  EXPECT_EQ(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
  EXPECT_EQ(quoted("\xe2\x80\xa9"), "\"\\u2029\"");
  EXPECT_EQ(quoted("\xff"), "\"\\ufffd\"");
}

}  // namespace
}  // namespace trireme::planner
