// The hash of a key that is a struct of integers: every bit of every field counts.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/random.h"

namespace trireme {

// Requires of Key: integers without padding between them, 8 bytes or a multiple; so equal keys are
// equal bytes.
template <typename Key>
struct FieldsHash {
  static_assert(std::has_unique_object_representations_v<Key>);
  static_assert(sizeof(Key) % sizeof(std::uint64_t) == 0);

  std::size_t operator()(const Key& key) const noexcept {
    using Words = std::array<std::uint64_t, sizeof(Key) / sizeof(std::uint64_t)>;
    std::uint64_t hash = 0;
    for (const std::uint64_t word : std::bit_cast<Words>(key)) {
      hash = (hash ^ word) * kGoldenGamma;
    }
    return static_cast<std::size_t>(hash ^ (hash >> 32U));
  }
};

}  // namespace trireme
