#include "sim/event_queue.h"

#include "core/check.h"

namespace trireme::sim {
namespace {

constexpr std::size_t kArity = 4;

bool before(const Event& a, const Event& b) {
  return a.time != b.time ? a.time < b.time : a.sequence < b.sequence;
}

}  // namespace

void EventQueue::schedule(SimTime time, std::uint32_t kind, std::uint32_t index) {
  const Event event{time, scheduled_++, kind, index};
  std::size_t hole = heap_.size();
  heap_.push_back(event);
  while (hole > 0) {
    const std::size_t parent = (hole - 1) / kArity;
    if (!before(event, heap_[parent])) {
      break;
    }
    heap_[hole] = heap_[parent];
    hole = parent;
  }
  heap_[hole] = event;
}

Event EventQueue::pop() {
  TRIREME_CHECK(!heap_.empty());
  const Event top = heap_.front();
  const Event last = heap_.back();
  heap_.pop_back();
  const std::size_t size = heap_.size();
  if (size == 0) {
    return top;
  }
  std::size_t hole = 0;
  while (true) {
    const std::size_t first = hole * kArity + 1;
    if (first >= size) {
      break;
    }
    const std::size_t end = first + kArity < size ? first + kArity : size;
    std::size_t least = first;
    for (std::size_t child = first + 1; child < end; ++child) {
      if (before(heap_[child], heap_[least])) {
        least = child;
      }
    }
    if (!before(heap_[least], last)) {
      break;
    }
    heap_[hole] = heap_[least];
    hole = least;
  }
  heap_[hole] = last;
  return top;
}

}  // namespace trireme::sim
