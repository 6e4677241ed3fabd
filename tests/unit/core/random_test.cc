#include "core/random.h"

#include <gtest/gtest.h>

#include <set>

#include "core/fields_hash.h"

namespace trireme {
namespace {

// The first outputs of SplitMix64 seeded with 1234567, as its author's reference code gives them.
TEST(Random, StreamsAreSplitMix64) {
  RandomStream random(1234567);
  for (const std::uint64_t expected :
       {6457827717110365317ULL, 3203168211198807973ULL, 9817491932198370423ULL,
        4593380528125082431ULL, 16408922859458223821ULL}) {
    EXPECT_EQ(random.bits(), expected);
  }
}

TEST(Random, BoundsHold) {
  RandomStream random(1);
  std::set<int> seen;
  for (int i = 0; i < 1000; ++i) {
    seen.insert(random.below(7));
  }
  EXPECT_EQ(seen, (std::set<int>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(random.below(std::size_t{0}), 0U);
}

struct Key {
  std::int64_t first = 0, second = 0;
  friend bool operator==(const Key&, const Key&) = default;
};

// Packed into 64 bits, group ranks from 2^20 on and degrees from 2^12 on ran into their neighbours.
TEST(FieldsHash, NeighboursAndLargeFieldsDiffer) {
  std::set<std::size_t> hashes;
  for (std::int64_t i = 0; i < 1000; ++i) {
    hashes.insert(FieldsHash<Key>()({i, 0}));
    hashes.insert(FieldsHash<Key>()({0, i + 1}));
    hashes.insert(FieldsHash<Key>()({(i + 1) << 40, 0}));
    hashes.insert(FieldsHash<Key>()({0, (i + 1) << 40}));
  }
  EXPECT_EQ(hashes.size(), 4000U);
}

}  // namespace
}  // namespace trireme
