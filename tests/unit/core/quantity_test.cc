#include "core/quantity.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "core/error.h"
#include "tests/unit/message_of.h"

namespace trireme {
namespace {

TEST(Quantity, BitsAndBytesAreSpelledOut) {
  EXPECT_DOUBLE_EQ(parse_bandwidth("400 Gbit/s", "x").value, 50e9);
  EXPECT_DOUBLE_EQ(parse_bandwidth("50 GB/s", "x").value, 50e9);
  EXPECT_DOUBLE_EQ(parse_duration("1.5 us", "x").value, 1.5e-6);
  EXPECT_EQ(parse_bytes("80 GiB", "x").value, std::int64_t{80} << 30);
  EXPECT_EQ(parse_bytes("80GB", "x").value, 80'000'000'000);
  EXPECT_DOUBLE_EQ(parse_flop_rate("989 TFLOP/s", "x").value, 989e12);
}

TEST(Quantity, ABareNumberIsRefusedExceptWhereItIsACount) {
  EXPECT_NE(
      message_of([] { parse_bytes("1024", "f#/memory"); }).find("f#/memory: '1024' has no unit"),
      std::string::npos);
  EXPECT_EQ(parse_byte_count("1024", "x").value, 1024);
}

TEST(Quantity, UnknownUnitNegativeAndNanAreRefusedWithTheirPlace) {
  EXPECT_NE(message_of([] { parse_bandwidth("4 Gb/s", "k"); }).find("unknown unit 'Gb/s'"),
            std::string::npos);
  EXPECT_NE(message_of([] { parse_bandwidth("-4 GB/s", "k"); }).find("negative"),
            std::string::npos);
  EXPECT_NE(message_of([] { parse_bandwidth("nan GB/s", "k"); }).find("not a number"),
            std::string::npos);
  EXPECT_NE(message_of([] { parse_bytes("1e30 TB", "k"); }).find("too large"), std::string::npos);
}

}  // namespace
}  // namespace trireme
