#include "runtime/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/error.h"

namespace trireme::runtime {
namespace fs = std::filesystem;

DurableFile::DurableFile(std::string path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    fail("cannot create");
  }
}

DurableFile::~DurableFile() {
  ::close(descriptor_);
}

void DurableFile::append(const void* data, std::size_t size) {
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(descriptor_, next, size);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      fail("cannot write");
    }
    next += written;
    size -= static_cast<std::size_t>(written);
  }
}

void DurableFile::finish() {
  if (::fsync(descriptor_) != 0) {
    fail("cannot flush");
  }
}

void DurableFile::fail(const char* what) const {
  throw Error(path_, fmt::format("{} the checkpoint: {}; the previous one is untouched", what,
                                 std::strerror(errno)));
}

void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    ::fsync(descriptor);
    ::close(descriptor);
  }
}

// Renames, or swaps with a checkpoint of the same step: at no moment is there none.
void put_in_place(const fs::path& temporary, const fs::path& place) {
  std::error_code error;
  if (fs::exists(place)) {
    if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) == 0) {
      fs::remove_all(temporary, error);
      return;
    }
    fs::remove_all(place, error);  // a file system without the swap
  }
  fs::rename(temporary, place, error);
  if (error) {
    throw Error(place.string(), "cannot put the checkpoint in place: " + error.message());
  }
}

}  // namespace trireme::runtime
