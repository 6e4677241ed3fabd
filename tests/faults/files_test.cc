// Files written whole, on a disk that fails: the old content or the new, one clear line, and
// nothing left beside it.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <sstream>

#include "core/error.h"
#include "core/files.h"
#include "tests/faults/file_faults.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using faults::Watch;

class FaultyFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::path(testing::TempDir()) / "faults_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = fs::canonical(name).string();
    write_file_atomically(path(), kOld);
  }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] std::string path() const { return folder_ + "/result.json"; }
  [[nodiscard]] std::string content() const { return read_file(path(), "the result"); }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  const std::string kOld = std::string(5000, 'o'), kNew = std::string(70000, 'n');
  std::string folder_;
};

TEST_F(FaultyFiles, EveryCallThatFailsLeavesTheOldFileAndSaysWhich) {
  std::size_t calls = 0;
  {
    const Watch watch(folder_);
    write_file_atomically(path(), kNew);
    calls = watch.calls();
  }
  ASSERT_GE(calls, 6U);  // create, write, flush, rename, open the folder, flush it
  std::size_t kept = 0;
  for (const int error : {ENOSPC, EIO, EDQUOT, EROFS, EACCES}) {
    for (std::size_t call = 0; call < calls; ++call) {
      write_file_atomically(path(), kOld);
      std::string line;
      {
        Watch watch(folder_);
        watch.fail(call, error);
        try {
          write_file_atomically(path(), kNew);
        } catch (const Error& caught) {
          line = caught.what();
        }
      }
      const std::string where = "call " + std::to_string(call) + ", error " + std::to_string(error);
      EXPECT_EQ(files(), 1U) << where;
      EXPECT_EQ(line.find('\n'), std::string::npos) << where;
      const bool before_rename = call < 4;
      // A file system without a disk to flush to (EROFS of fsync) is as safe as it gets.
      if (before_rename && !line.empty()) {
        EXPECT_NE(line.find(folder_), std::string::npos) << where << ": " << line;
        EXPECT_EQ(content(), kOld) << where;
        ++kept;
      } else {
        EXPECT_EQ(content(), kNew) << where << ": " << line;
      }
    }
  }
  EXPECT_GE(kept, 19U);
}

// A signal in the midst of fsync was told as a broken disk, and the result was lost.
TEST_F(FaultyFiles, ASignalIsNoFailure) {
  for (std::size_t call = 0; call < 8; ++call) {
    write_file_atomically(path(), kOld);
    Watch watch(folder_);
    watch.fail(call, EINTR);
    if (call == 3) {
      continue;  // rename is not interrupted
    }
    EXPECT_NO_THROW(write_file_atomically(path(), kNew)) << "call " << call;
    EXPECT_NO_THROW(EXPECT_EQ(content(), kNew)) << "call " << call;
  }
}

TEST_F(FaultyFiles, ShortReadsAndWritesMoveEverything) {
  Watch watch(folder_);
  watch.move_at_most(7);
  write_file_atomically(path(), kNew);
  EXPECT_EQ(content(), kNew);
  EXPECT_GE(watch.calls(), 2 * kNew.size() / 7);
}

TEST_F(FaultyFiles, AReadThatFailsIsAnError) {
  Watch watch(folder_);
  watch.fail(1, EIO);
  EXPECT_THROW(static_cast<void>(content()), Error);
}

}  // namespace
}  // namespace trireme
