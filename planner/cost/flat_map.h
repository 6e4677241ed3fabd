// A small open-addressing table: what the closed form remembers between plans. A key is a struct of
// integers (core/fields_hash.h). Values stay where they are until the next insertion.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "core/fields_hash.h"

namespace trireme::planner {

template <typename Key, typename Value>
class FlatMap {
 public:
  FlatMap() : slots_(64) {}

  Value* find(const Key& key) {
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
  Value& insert(const Key& key, Value value) {
    if (2 * (count_ + 1) > slots_.size()) {
      grow();
    }
    ++count_;
    return place(key, std::move(value));
  }

 private:
  struct Slot {
    Key key{};
    bool used = false;
    Value value{};
  };

  [[nodiscard]] std::size_t start(const Key& key) const {
    return FieldsHash<Key>()(key) & (slots_.size() - 1);
  }

  Value& place(const Key& key, Value value) {
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
