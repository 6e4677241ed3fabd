// A small open-addressing table from 128-bit keys to values: what the closed form remembers between
// plans. Values stay where they are until the next insertion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trireme::planner {

struct Key128 {
  std::uint64_t high = 0, low = 0;
  friend bool operator==(const Key128&, const Key128&) = default;
};

template <typename Value>
class FlatMap {
 public:
  FlatMap() : slots_(64) {}

  Value* find(const Key128& key) {
    for (std::size_t i = start(key);; i = (i + 1) & (slots_.size() - 1)) {
      if (!slots_[i].used) {
        return nullptr;
      }
      if (slots_[i].key == key) {
        return &slots_[i].value;
      }
    }
  }

  // Requires: the key is not there yet.
  Value& insert(const Key128& key, Value value) {
    if (2 * (count_ + 1) > slots_.size()) {
      grow();
    }
    ++count_;
    return place(key, std::move(value));
  }

 private:
  struct Slot {
    Key128 key;
    bool used = false;
    Value value{};
  };

  [[nodiscard]] std::size_t start(const Key128& key) const {
    // splitmix64's finaliser over both halves
    std::uint64_t x = key.low ^ (key.high * 0x9E3779B97F4A7C15ULL);
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return static_cast<std::size_t>(x ^ (x >> 31)) & (slots_.size() - 1);
  }

  Value& place(const Key128& key, Value value) {
    std::size_t i = start(key);
    while (slots_[i].used) {
      i = (i + 1) & (slots_.size() - 1);
    }
    slots_[i] = Slot{key, true, std::move(value)};
    return slots_[i].value;
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (Slot& slot : old) {
      if (slot.used) {
        place(slot.key, std::move(slot.value));
      }
    }
  }

  std::vector<Slot> slots_;
  std::size_t count_ = 0;
};

}  // namespace trireme::planner
