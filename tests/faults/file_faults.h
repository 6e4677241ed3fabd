// The system's calls on files, watched: those on files below one folder are written down, and can
// be made to fail as a full disk, a broken one or a signal makes them. The calls are replaced in
// the test program itself (file_faults.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme::faults {

enum class Call : std::uint8_t {
  kCreate,
  kOpen,
  kRead,
  kWrite,
  kFlush,
  kRename,
  kExchange,
  kRemove,
  kMakeFolder
};

struct Operation {
  Call call = Call::kOpen;
  std::string path, to;     // `to` of a rename or an exchange
  std::int64_t offset = 0;  // of a write
  std::string bytes;
};

// While it lives, calls on files below `folder` are watched; one at a time.
class Watch {
 public:
  explicit Watch(std::string folder);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  Watch(Watch&&) = delete;
  Watch& operator=(Watch&&) = delete;

  // The call with this number, from 0, fails with `error` (an errno), once.
  void fail(std::size_t call, int error);
  // Reads and writes move so many bytes at most.
  void move_at_most(std::size_t bytes);
  // What was done so far; failed calls are none.
  [[nodiscard]] std::vector<Operation> operations() const;
  [[nodiscard]] std::size_t calls() const;  // failed ones too
};

// Does the same below another folder that stands for the first.
class Replay {
 public:
  Replay(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
  void apply(const Operation& operation) const;

 private:
  [[nodiscard]] std::string moved(const std::string& path) const;
  std::string from_, to_;
};

}  // namespace trireme::faults
