// The values of a checkpoint, in one file a rank: however many there were, few are open at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <list>
#include <string>

#include "core/descriptor.h"

namespace trireme::runtime {

// "rank-00003.bin"
std::string rank_file(std::int64_t rank);

class RankFiles {
 public:
  RankFiles() = default;
  // Values are of `value_bytes` each: 4 (float) or 8 (double).
  RankFiles(std::filesystem::path folder, std::int64_t value_bytes)
      : folder_(std::move(folder)), value_bytes_(value_bytes) {}

  // Reads `count` values of a rank's file from value `offset` on into `to`. Throws Error when the
  // file is missing, cannot be read, or is shorter than that.
  void read(std::int64_t rank, std::int64_t offset, std::int64_t count, double* to);

 private:
  struct Open {
    std::int64_t rank = 0;
    Descriptor file;
  };
  int file_of(std::int64_t rank);
  void read_bytes(std::int64_t rank, std::int64_t offset, char* to, std::int64_t size);

  std::filesystem::path folder_;
  std::int64_t value_bytes_ = 4;
  std::list<Open> open_;  // the last used first
};

}  // namespace trireme::runtime
