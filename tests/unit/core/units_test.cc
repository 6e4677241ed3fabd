#include "core/units.h"

#include <gtest/gtest.h>

#include <type_traits>

namespace trireme {
namespace {

template <typename A, typename B>
concept Addable = requires(A a, B b) {
  a + b;
};
template <typename A, typename B>
concept Multipliable = requires(A a, B b) {
  a* b;
};

// What must not compile: sums across units, implicit construction from a bare number.
static_assert(!Addable<Seconds, Bytes>);
static_assert(!Addable<Bytes, Elements>);
static_assert(!Multipliable<Bytes, Bytes>);
static_assert(!std::is_convertible_v<double, Seconds>);
static_assert(!std::is_convertible_v<std::int64_t, Bytes>);

TEST(Units, BytesOverBandwidthIsTime) {
  EXPECT_DOUBLE_EQ((Bytes(900) / BytesPerSecond(450.0)).value, 2.0);
  EXPECT_DOUBLE_EQ((Flop(10.0) / FlopPerSecond(4.0)).value, 2.5);
}

TEST(Units, SimDurationRoundsUpOnceAndKeepsWholePicoseconds) {
  EXPECT_EQ(to_sim_duration(Seconds(2.5e-12)).value, 3);
  EXPECT_EQ(to_sim_duration(Seconds(1e-6)).value, 1'000'000);
}

TEST(Units, GibIsTwoToTheThirty) {
  EXPECT_DOUBLE_EQ(to_gib(Bytes(std::int64_t{3} << 30)), 3.0);
}

}  // namespace
}  // namespace trireme
