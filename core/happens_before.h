// What streams and waits of one program guarantee: which ops have ended when an op starts.
#pragma once

#include <cstdint>
#include <vector>

#include "core/program.h"

namespace trireme {

// For every op and stream: how many ops of that stream have ended when the op itself has.
class HappensBefore {
 public:
  explicit HappensBefore(const Program& role);
  // 1-based place of an op on its stream.
  [[nodiscard]] std::uint32_t place(OpId op) const { return places_[index_of(op)]; }
  // Ops of `stream` ended before `op` starts (on its own stream: all earlier ones).
  [[nodiscard]] std::uint32_t ended_before(OpId op, StreamId stream) const;
  [[nodiscard]] bool ordered(const Program& role, OpId first, OpId second) const {
    return ended_before(second, role.ops[index_of(first)].stream) >= place(first);
  }

 private:
  std::size_t streams_;
  std::vector<std::uint32_t> places_;
  std::vector<std::uint32_t> clocks_;  // op-major
  std::vector<std::uint32_t> own_stream_;
};

}  // namespace trireme
