#include "core/quantity.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <string>

#include "core/error.h"

namespace trireme {
namespace {

struct Unit {
  std::string_view name;
  double scale;
};

// In the unit of scale 1: beyond any rate, size or time of a machine, and far from where sums of
// such numbers fail.
constexpr double kMost = 1e24;

constexpr std::array kByteUnits = {
    Unit{"B", 1.0},         Unit{"kB", 1e3},   Unit{"MB", 1e6},
    Unit{"GB", 1e9},        Unit{"TB", 1e12},  Unit{"KiB", 1024.0},
    Unit{"MiB", 1048576.0}, Unit{"GiB", kGiB}, Unit{"TiB", kGiB * 1024.0}};
constexpr std::array kBandwidthUnits = {Unit{"B/s", 1.0},          Unit{"kB/s", 1e3},
                                        Unit{"MB/s", 1e6},         Unit{"GB/s", 1e9},
                                        Unit{"TB/s", 1e12},        Unit{"Mbit/s", 1e6 / 8.0},
                                        Unit{"Gbit/s", 1e9 / 8.0}, Unit{"Tbit/s", 1e12 / 8.0}};
constexpr std::array kDurationUnits = {Unit{"ps", 1e-12}, Unit{"ns", 1e-9}, Unit{"us", 1e-6},
                                       Unit{"ms", 1e-3}, Unit{"s", 1.0}};
constexpr std::array kFlopUnits = {Unit{"GFLOP/s", 1e9}, Unit{"TFLOP/s", 1e12},
                                   Unit{"PFLOP/s", 1e15}};
constexpr std::array kPowerUnits = {Unit{"W", 1.0}, Unit{"kW", 1e3}};

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string names_of(std::span<const Unit> units) {
  std::string names;
  for (const Unit& unit : units) {
    names += (names.empty() ? "" : ", ") + std::string(unit.name);
  }
  return names;
}

// Splits "450 GB/s" and scales it. `bare_scale` is the unit of a number without one; 0 refuses it.
double parse_quantity(std::string_view text, std::string_view where, std::span<const Unit> units,
                      double bare_scale = 0.0) {
  const std::string_view body = trimmed(text);
  double number = 0.0;
  const auto [end, failure] = std::from_chars(body.data(), body.data() + body.size(), number);
  if (failure != std::errc() || !std::isfinite(number)) {
    throw Error(std::string(where),
                fmt::format("'{}' is not a number with a unit; write e.g. '1.5 {}'", text,
                            units.back().name));
  }
  if (number < 0.0) {
    throw Error(std::string(where), fmt::format("'{}' is negative; it must be 0 or more", text));
  }
  const std::string_view unit_name =
      trimmed(body.substr(static_cast<std::size_t>(end - body.data())));
  if (unit_name.empty() && bare_scale > 0.0) {
    return number * bare_scale;
  }
  for (const Unit& unit : units) {
    if (unit.name == unit_name) {
      if (number * unit.scale > kMost) {
        throw Error(std::string(where), fmt::format("'{}' is too large; at most {:g} {} are taken",
                                                    text, kMost / unit.scale, unit.name));
      }
      return number * unit.scale;
    }
  }
  throw Error(std::string(where),
              unit_name.empty()
                  ? fmt::format("'{}' has no unit; add one of {}", text, names_of(units))
                  : fmt::format("'{}' has the unknown unit '{}'; use one of {}", text, unit_name,
                                names_of(units)));
}

Bytes to_whole_bytes(double bytes, std::string_view text, std::string_view where) {
  constexpr double kLimit = 9.0e18;  // below 2^63
  if (bytes > kLimit) {
    throw Error(std::string(where),
                fmt::format("'{}' is too large; the limit is 9e18 bytes", text));
  }
  return Bytes(static_cast<std::int64_t>(std::llround(bytes)));
}

}  // namespace

Bytes parse_bytes(std::string_view text, std::string_view where) {
  return to_whole_bytes(parse_quantity(text, where, kByteUnits), text, where);
}

Bytes parse_byte_count(std::string_view text, std::string_view where) {
  return to_whole_bytes(parse_quantity(text, where, kByteUnits, 1.0), text, where);
}

BytesPerSecond parse_bandwidth(std::string_view text, std::string_view where) {
  return BytesPerSecond(parse_quantity(text, where, kBandwidthUnits));
}

Seconds parse_duration(std::string_view text, std::string_view where) {
  return Seconds(parse_quantity(text, where, kDurationUnits));
}

FlopPerSecond parse_flop_rate(std::string_view text, std::string_view where) {
  return FlopPerSecond(parse_quantity(text, where, kFlopUnits));
}

double parse_power_watts(std::string_view text, std::string_view where) {
  return parse_quantity(text, where, kPowerUnits);
}

}  // namespace trireme
