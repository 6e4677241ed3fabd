// Finish times that move: when a flow's rate changes, its finish time does. An indexed four-ary
// heap, ordered by time and then by index.
#pragma once

#include <cstdint>
#include <vector>

#include "core/units.h"

namespace trireme::sim {

class FinishHeap {
 public:
  // Inserts `index` or moves it to `time`.
  void set(std::uint32_t index, SimTime time);
  void erase(std::uint32_t index);  // no effect when it is not in the heap
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  // Requires: not empty.
  [[nodiscard]] SimTime next_time() const { return heap_.front().time; }
  [[nodiscard]] std::uint32_t next_index() const { return heap_.front().index; }

 private:
  struct Entry {
    SimTime time;
    std::uint32_t index = 0;
  };
  static bool before(const Entry& a, const Entry& b) {
    return a.time != b.time ? a.time < b.time : a.index < b.index;
  }
  void rise(std::uint32_t hole, Entry entry);
  void sink(std::uint32_t hole, Entry entry);
  void place(std::uint32_t hole, Entry entry) {
    heap_[hole] = entry;
    position_[entry.index] = hole;
  }

  std::vector<Entry> heap_;
  std::vector<std::uint32_t> position_;  // by index; kAbsent when not in the heap
};

}  // namespace trireme::sim
