// Whatever a step program's text holds, reading it gives a program or one clear Error, and whatever
// was read, verify answers: no crash, no hang. Accepted texts print and parse to the same program.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/program_text.h"
#include "core/verify.h"
#include "mutate.h"

namespace trireme {
namespace {

std::vector<std::string> golden_texts() {
  std::vector<std::string> texts;
  for (const char* name : {"single", "fully_sharded", "interleaved", "sequence_parallel"}) {
    std::ifstream file(std::string(TRIREME_SOURCE_DIR) + "/tests/golden/programs/" + name + ".txt");
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    EXPECT_FALSE(texts.back().empty());
  }
  return texts;
}

// Replaces one number by another, the kind of damage that still parses.
void spoil_number(std::string& text, fuzz::Random& random) {
  const std::size_t start = random.below(text.size());
  const std::size_t at = text.find_first_of("0123456789", start);
  if (at == std::string::npos) {
    return;
  }
  const std::size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
  const char* const numbers[] = {"0",  "1",    "2",          "7",
                                 "63", "4096", "4294967295", "9223372036854775807"};
  text.replace(at, end - at, numbers[random.below(8)]);
}

TEST(ProgramTextFuzz, OnlyErrorsComeOut) {
  const std::vector<std::string> texts = golden_texts();
  const std::uint64_t cases = fuzz::case_count(400);
  std::uint64_t accepted = 0;
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::string text = texts[seed % texts.size()];
    fuzz::Random random(seed);
    for (std::size_t i = 0; i <= random.below<std::size_t>(3); ++i) {
      if (random.below(4) == 0) {
        fuzz::spoil_text(text, random);
      } else {
        spoil_number(text, random);
      }
    }
    try {
      const StepProgram program = parse_program(text, "spoilt");
      ++accepted;
      verify(program);
      EXPECT_TRUE(parse_program(print(program), "again") == program || !verify(program).empty());
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
  EXPECT_GT(accepted, cases / 8);
  EXPECT_LT(accepted, cases);
}

// An operand that begins near the end of 64 bits was summed up to a negative end, inside its
// buffer.
TEST(ProgramText, AnOperandBeyondSixtyFourBitsLeavesItsBuffer) {
  std::string text = golden_texts()[1];
  const std::string where = "b0[0+400] b19@1[0+400]";
  const std::size_t at = text.find(where);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, where.size(), "b0[0+400] b19@1[9223372036854775807+400]");
  const std::vector<std::string> problems = verify(parse_program(text, "spoilt"));
  EXPECT_TRUE(std::ranges::any_of(problems, [](const std::string& problem) {
    return problem.find("leaves buffer") != std::string::npos;
  }));
}

}  // namespace
}  // namespace trireme
