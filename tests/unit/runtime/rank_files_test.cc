#include "runtime/rank_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/files.h"

namespace trireme::runtime {
namespace {

namespace fs = std::filesystem;

class RankFilesOf : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("trireme_rank_files_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(std::int64_t rank, const std::vector<double>& values) const {
    write_file_atomically(
        (folder_ / rank_file(rank)).string(),
        std::string(static_cast<const char*>(static_cast<const void*>(values.data())),
                    values.size() * sizeof(double)));
  }
  fs::path folder_;
};

// A checkpoint of more ranks than a process may open files could not be loaded.
TEST_F(RankFilesOf, ManyRanksNeedFewDescriptors) {
  constexpr std::int64_t kRanks = 100;
  for (std::int64_t rank = 0; rank < kRanks; ++rank) {
    write(rank, {static_cast<double>(rank), -1.0});
  }
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const Descriptor next(::dup(0));
  ASSERT_TRUE(next.is_open());
  const rlimit narrow{static_cast<rlim_t>(next.value()) + 4, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &narrow), 0);
  RankFiles files(folder_, 8);
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t rank = 0; rank < kRanks; ++rank) {
      double value = 0;
      files.read(rank, 0, 1, &value);
      EXPECT_EQ(value, static_cast<double>(rank));
    }
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST_F(RankFilesOf, WhatIsMissingOrShortIsNamed) {
  write(0, {1.0, 2.0});
  RankFiles files(folder_, 8);
  std::vector<double> values(3);
  for (const auto& [rank, part] : {std::pair(0, "is shorter"), {1, "No such file"}}) {
    try {
      files.read(rank, 0, 3, values.data());
      FAIL() << rank;
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find(rank_file(rank)), std::string::npos) << message;
      EXPECT_NE(message.find(part), std::string::npos) << message;
    }
  }
}

}  // namespace
}  // namespace trireme::runtime
