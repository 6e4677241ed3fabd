#include "runtime/token_source.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "core/error.h"

namespace trireme::runtime {
namespace {

class TokenFile : public testing::Test {
 protected:
  void write(const std::vector<std::uint16_t>& tokens) {
    std::ofstream file(path_, std::ios::binary);
    for (const std::uint16_t token : tokens) {
      file.put(static_cast<char>(token & 0xffU)).put(static_cast<char>(token >> 8U));
    }
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string path_ = testing::TempDir() + "trireme_tokens.bin";
};

TEST(SyntheticTokens, DependOnSeedAndIndexAlone) {
  const auto a = synthetic_tokens(1, 100);
  const auto b = synthetic_tokens(1, 100);
  const auto c = synthetic_tokens(2, 100);
  std::vector<std::int32_t> x(32), y(32), z(32), first(32);
  a->read(0, first);
  a->read(5, x);
  b->read(5, y);
  c->read(5, z);
  EXPECT_EQ(x, y);
  EXPECT_NE(x, z);
  EXPECT_NE(x, first);
  for (const std::int32_t token : x) {
    EXPECT_GE(token, 0);
    EXPECT_LT(token, 100);
  }
}

TEST_F(TokenFile, SequencesFollowEachOtherAndWrap) {
  write({0, 1, 2, 3, 4, 5, 6, 7, 8});
  const auto source = file_tokens(path_, 2, 4, 16);  // two windows of 4, each with its next token
  std::vector<std::int32_t> tokens(5);
  source->read(1, tokens);
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{4, 5, 6, 7, 8}));
  source->read(2, tokens);
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{0, 1, 2, 3, 4}));
}

TEST_F(TokenFile, RefusesWhatIsWrong) {
  EXPECT_THROW(file_tokens(path_ + ".absent", 2, 4, 16), Error);
  EXPECT_THROW(file_tokens(testing::TempDir(), 2, 4, 16), Error);
  write({1, 2, 3});
  EXPECT_THROW(file_tokens(path_, 2, 4, 16), Error);  // shorter than a sequence
  EXPECT_THROW(file_tokens(path_, 4, 1, 16), Error);  // half a token
  write({});
  EXPECT_THROW(file_tokens(path_, 2, 4, 16), Error);
  write({1, 2, 3, 40, 5});
  const auto source = file_tokens(path_, 2, 4, 16);
  std::vector<std::int32_t> tokens(5);
  EXPECT_THROW(source->read(0, tokens), Error);  // 40 is outside a vocabulary of 16
}

}  // namespace
}  // namespace trireme::runtime
