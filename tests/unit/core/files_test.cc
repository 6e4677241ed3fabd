#include "core/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "tests/unit/message_of.h"

namespace {

// What the project flushes, in order, seen by standing in for the system's call.
std::vector<std::string> flushed;
int flush_error = 0;

}  // namespace

extern "C" int fsync(int file) {
  flushed.push_back(
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file)).filename().string());
  if (flush_error != 0) {
    errno = flush_error;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, file));
}

namespace trireme {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("trireme_files_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    flushed.clear();
  }
  void TearDown() override {
    flush_error = 0;
    fs::remove_all(folder_);
  }
  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  [[nodiscard]] std::size_t files_there() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  fs::path folder_;
};

TEST_F(Files, WhatIsWrittenIsReadBack) {
  const std::string text("line\0\n\xff", 7);
  write_file_atomically(path("a"), text);
  EXPECT_EQ(read_file(path("a"), "a text"), text);
  write_file_atomically(path("a"), "");
  EXPECT_EQ(read_file(path("a"), "a text"), "");
  const std::string large(300'000, 'x');
  write_file_atomically(path("a"), large);
  EXPECT_EQ(read_file(path("a"), "a text", large.size()), large);
  EXPECT_EQ(files_there(), 1U);
}

TEST_F(Files, WhatCannotBeReadSaysWhy) {
  EXPECT_NE(message_of([&] {
              read_file(path("none"), "a plan");
            }).find("cannot be read: No such file or directory; a plan would be right"),
            std::string::npos);
  EXPECT_NE(message_of([&] { read_file(folder_.string(), "a plan"); }).find("is a folder"),
            std::string::npos);
  write_file_atomically(path("a"), "12345");
  EXPECT_NE(message_of([&] { read_file(path("a"), "a plan", 4); }).find("more than 4 bytes"),
            std::string::npos);
  EXPECT_NE(message_of([&] { read_file("/dev/zero", "a plan", 1000); }).find("more than 1000"),
            std::string::npos);
}

// The newest step's name was renamed into place before it was on the disk.
TEST_F(Files, AWriteIsFlushedBeforeAndAfterItsRename) {
  write_file_atomically(path("a"), "text");
  ASSERT_EQ(flushed.size(), 2U);
  EXPECT_TRUE(flushed[0].starts_with("a.") && flushed[0].ends_with(".tmp")) << flushed[0];
  EXPECT_EQ(flushed[1], folder_.filename().string());
}

TEST_F(Files, AFlushThatFailsLeavesTheOldFileAndNothingElse) {
  write_file_atomically(path("a"), "old");
  flush_error = EIO;
  EXPECT_NE(message_of([&] {
              write_file_atomically(path("a"), "new");
            }).find("a: cannot be flushed to the disk: Input/output error"),
            std::string::npos);
  flush_error = 0;
  EXPECT_EQ(read_file(path("a"), "a text"), "old");
  EXPECT_EQ(files_there(), 1U);
}

TEST_F(Files, AFileSystemThatFlushesNothingIsWrittenTo) {
  flush_error = EINVAL;
  write_file_atomically(path("a"), "text");
  EXPECT_EQ(read_file(path("a"), "a text"), "text");
}

TEST_F(Files, AFolderThatIsNotThereIsAnError) {
  EXPECT_NE(message_of([&] {
              write_file_atomically(path("no/such/a"), "text");
            }).find("a: cannot be created: No such file or directory"),
            std::string::npos);
}

TEST_F(Files, LinksAndModesStay) {
  write_file_atomically(path("real"), "old");
  fs::permissions(path("real"), fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("real", path("link"));
  write_file_atomically(path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(read_file(path("real"), "a text"), "new");
  EXPECT_EQ(fs::status(path("real")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

// With enough rights a device was replaced by a file.
TEST_F(Files, WhatIsNoFileIsWrittenTo) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] {
    std::ifstream file(path("pipe"));
    got.assign(std::istreambuf_iterator<char>(file), {});
  });
  write_file_atomically(path("pipe"), "text");
  reader.join();
  EXPECT_EQ(got, "text");
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
}

}  // namespace
}  // namespace trireme
