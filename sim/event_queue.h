// What happens next: events in order of time, and at one instant in the order in which they were
// scheduled, so that a simulation is a function of its input alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/units.h"

namespace trireme::sim {

struct Event {
  SimTime time;
  std::uint64_t sequence = 0;  // order of scheduling: breaks ties
  std::uint32_t kind = 0;      // what the owner of the queue means by it
  std::uint32_t index = 0;
};

// A four-ary heap: shallower than a binary one, and the four children share a cache line or two.
class EventQueue {
 public:
  void schedule(SimTime time, std::uint32_t kind, std::uint32_t index);
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] std::size_t size() const { return heap_.size(); }
  // Requires: not empty.
  [[nodiscard]] const Event& next() const { return heap_.front(); }
  Event pop();

 private:
  std::vector<Event> heap_;
  std::uint64_t scheduled_ = 0;
};

}  // namespace trireme::sim
