#include "runtime/rank_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "core/error.h"

namespace trireme::runtime {
namespace {

// Each of up to 256 ranks in one process has its own; a process may often open 1024 files.
constexpr std::size_t kOpenMost = 2;

}  // namespace

std::string rank_file(std::int64_t rank) {
  return fmt::format("rank-{:05}.bin", rank);
}

int RankFiles::file_of(std::int64_t rank) {
  const auto found =
      std::find_if(open_.begin(), open_.end(), [&](const Open& open) { return open.rank == rank; });
  if (found != open_.end()) {
    open_.splice(open_.begin(), open_, found);
    return open_.front().file.value();
  }
  if (open_.size() >= kOpenMost) {
    open_.pop_back();
  }
  const std::string path = (folder_ / rank_file(rank)).string();
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) {
    throw Error(path,
                fmt::format("cannot be read: {}; checkpoint.json names it", std::strerror(errno)));
  }
  open_.push_front({rank, std::move(file)});
  return open_.front().file.value();
}

void RankFiles::read_bytes(std::int64_t rank, std::int64_t offset, char* to, std::int64_t size) {
  const int file = file_of(rank);
  while (size > 0) {
    const ssize_t got = ::pread(file, to, static_cast<std::size_t>(size), offset);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      throw Error((folder_ / rank_file(rank)).string(),
                  got == 0 ? "is shorter than checkpoint.json says"
                           : fmt::format("cannot be read: {}", std::strerror(errno)));
    }
    to += got;
    offset += got;
    size -= got;
  }
}

void RankFiles::read(std::int64_t rank, std::int64_t offset, std::int64_t count, double* to) {
  const std::int64_t at = offset * value_bytes_;
  if (value_bytes_ == 8) {
    read_bytes(rank, at, static_cast<char*>(static_cast<void*>(to)), count * 8);
    return;
  }
  std::vector<float> narrow(static_cast<std::size_t>(count));
  read_bytes(rank, at, static_cast<char*>(static_cast<void*>(narrow.data())), count * 4);
  std::copy(narrow.begin(), narrow.end(), to);
}

}  // namespace trireme::runtime
