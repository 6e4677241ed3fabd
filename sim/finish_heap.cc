#include "sim/finish_heap.h"

namespace trireme::sim {
namespace {

constexpr std::uint32_t kHeapArity = 4;
constexpr std::uint32_t kAbsent = 0xffffffff;

}  // namespace

void FinishHeap::rise(std::uint32_t hole, Entry entry) {
  while (hole > 0) {
    const std::uint32_t parent = (hole - 1) / kHeapArity;
    if (!before(entry, heap_[parent])) {
      break;
    }
    place(hole, heap_[parent]);
    hole = parent;
  }
  place(hole, entry);
}

void FinishHeap::sink(std::uint32_t hole, Entry entry) {
  const auto size = static_cast<std::uint32_t>(heap_.size());
  while (true) {
    const std::uint32_t first = hole * kHeapArity + 1;
    if (first >= size) {
      break;
    }
    const std::uint32_t end = first + kHeapArity < size ? first + kHeapArity : size;
    std::uint32_t least = first;
    for (std::uint32_t child = first + 1; child < end; ++child) {
      if (before(heap_[child], heap_[least])) {
        least = child;
      }
    }
    if (!before(heap_[least], entry)) {
      break;
    }
    place(hole, heap_[least]);
    hole = least;
  }
  place(hole, entry);
}

void FinishHeap::set(std::uint32_t index, SimTime time) {
  if (index >= position_.size()) {
    position_.resize(index + 1, kAbsent);
  }
  const Entry entry{time, index};
  const std::uint32_t at = position_[index];
  if (at == kAbsent) {
    heap_.push_back(entry);
    rise(static_cast<std::uint32_t>(heap_.size() - 1), entry);
  } else if (before(entry, heap_[at])) {
    rise(at, entry);
  } else {
    sink(at, entry);
  }
}

void FinishHeap::erase(std::uint32_t index) {
  if (index >= position_.size() || position_[index] == kAbsent) {
    return;
  }
  const std::uint32_t at = position_[index];
  position_[index] = kAbsent;
  const Entry last = heap_.back();
  heap_.pop_back();
  if (last.index == index) {
    return;
  }
  if (at > 0 && before(last, heap_[(at - 1) / kHeapArity])) {
    rise(at, last);
  } else {
    sink(at, last);
  }
}

}  // namespace trireme::sim
