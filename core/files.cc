#include "core/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Where a file that `path` names is written: links are followed, so that they stay links.
std::string target_of(const std::string& path) {
  std::error_code failed;
  if (!fs::is_symlink(path, failed)) {
    return path;
  }
  const fs::path target = fs::canonical(path, failed);
  return failed ? path : target.string();
}

// A call again while a signal interrupts it.
template <class Call>
int uninterrupted(Call call) {
  int result = call();
  while (result < 0 && errno == EINTR) {
    result = call();
  }
  return result;
}

int open_file(const std::string& path, int flags) {
  return uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); });
}

// What cannot be flushed (a pipe, a file system without a disk) is as safe as it gets.
bool flush(const Descriptor& file) {
  return uninterrupted([&] { return ::fsync(file.value()); }) == 0 || errno == EINVAL ||
         errno == EROFS || errno == ENOTSUP;
}

[[noreturn]] void fail_to_read(const std::string& path, std::string_view wanted) {
  throw Error(path,
              fmt::format("cannot be read: {}; {} would be right", std::strerror(errno), wanted));
}

// `path` is what people named, `place` where it is written.
void write_whole(const std::string& place, const std::string& path, std::string_view content) {
  FileWriter file(place, {path, "; give a path in a writable folder with enough space"});
  file.append(content.data(), content.size());
  file.finish();
}

void replace(const std::string& path, const std::string& target, const std::string& temporary,
             std::string_view content) {
  std::error_code failed;
  const fs::file_status before = fs::status(target, failed);
  write_whole(temporary, path, content);
  if (fs::exists(before)) {
    fs::permissions(temporary, before.permissions(), failed);
  }
  if (std::rename(temporary.c_str(), target.c_str()) != 0) {
    throw Error(path, fmt::format("cannot be replaced: {}; give a path in a writable folder",
                                  std::strerror(errno)));
  }
  const fs::path folder = fs::path(target).parent_path();
  sync_folder(folder.empty() ? "." : folder.string());
}

}  // namespace

std::string read_file(const std::string& path, std::string_view wanted, std::size_t most) {
  if (path.empty()) {
    throw Error("FILE", fmt::format("is empty; the name of {} would be right", wanted));
  }
  const Descriptor file(open_file(path, O_RDONLY));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.value(), &status) != 0) {
    fail_to_read(path, wanted);
  }
  if (S_ISDIR(status.st_mode)) {
    throw Error(path, fmt::format("is a folder; {} would be right", wanted));
  }
  constexpr std::size_t kChunk = 1U << 16U;
  const auto expected = static_cast<std::size_t>(std::max<off_t>(status.st_size, 0));
  std::string content;
  std::size_t size = 0;
  while (size <= most) {
    content.resize(std::min(std::max(expected, size + kChunk) + 1, most + 1));
    const ssize_t got = ::read(file.value(), content.data() + size, content.size() - size);
    if (got == 0) {
      content.resize(size);
      return content;
    }
    if (got < 0 && errno != EINTR) {
      fail_to_read(path, wanted);
    }
    size += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  }
  throw Error(path, fmt::format("has more than {} bytes; {} would be right", most, wanted));
}

FileWriter::FileWriter(const std::string& place, Words words)
    : words_(std::move(words)), file_(open_file(place, O_WRONLY | O_CREAT | O_TRUNC)) {
  if (!file_.is_open()) {
    fail("cannot be created");
  }
}

void FileWriter::append(const void* data, std::size_t size) {
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(file_.value(), next, size);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      fail("cannot be written");
    }
    next += written;
    size -= static_cast<std::size_t>(written);
  }
}

void FileWriter::finish() {
  if (!flush(file_)) {
    fail("cannot be flushed to the disk");
  }
  if (!file_.close()) {  // NFS tells of a full disk here
    fail("cannot be closed");
  }
}

void FileWriter::fail(const char* what) const {
  throw Error(words_.name, fmt::format("{}: {}{}", what, std::strerror(errno), words_.remark));
}

void sync_folder(const std::string& folder) {
  const Descriptor opened(open_file(folder, O_RDONLY | O_DIRECTORY));
  if (!opened.is_open() && errno == EACCES) {
    return;  // one may write into a folder without being allowed to open it
  }
  if (!opened.is_open() || !flush(opened)) {
    throw Error(folder, fmt::format("cannot be flushed to the disk: {}", std::strerror(errno)));
  }
}

void write_file_atomically(const std::string& path, std::string_view content) {
  const std::string target = target_of(path);
  std::error_code failed;
  const fs::file_status before = fs::status(target, failed);
  if (fs::exists(before) && !fs::is_regular_file(before)) {  // a pipe, /dev/stdout, a folder
    write_whole(target, path, content);
    return;
  }
  const std::string temporary = fmt::format("{}.{}.tmp", target, ::getpid());
  try {
    replace(path, target, temporary, content);
  } catch (const Error&) {
    std::remove(temporary.c_str());
    throw;
  }
}

}  // namespace trireme
