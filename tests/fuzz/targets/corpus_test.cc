// Every text of the fuzzers' corpora, whole, cut short and spoiled, through its reader: what once
// broke one stays mended.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/fuzz/targets/target.h"

namespace trireme::fuzz {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> texts_of(const Target& target) {
  std::vector<fs::path> paths;
  for (const auto& entry :
       fs::directory_iterator(fs::path(TRIREME_SOURCE_DIR) / "tests/fuzz/corpus" / target.name)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

class Corpus : public testing::TestWithParam<Target> {};

TEST_P(Corpus, IsReadOrRefusedInOneLine) {
  const std::vector<fs::path> paths = texts_of(GetParam());
  EXPECT_FALSE(paths.empty());
  for (const fs::path& path : paths) {
    SCOPED_TRACE(path.string());
    std::ostringstream stream;
    stream << std::ifstream(path, std::ios::binary).rdbuf();
    const std::string text = stream.str();
    EXPECT_LT(text.size(), 64'000U) << "a corpus is small";
    EXPECT_NO_THROW(ask(GetParam().read, text));
    for (std::size_t cut = 1; cut < 8; ++cut) {
      EXPECT_NO_THROW(ask(GetParam().read, text.substr(0, text.size() * cut / 8))) << cut;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OfEveryReader, Corpus, testing::ValuesIn(targets()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace trireme::fuzz
