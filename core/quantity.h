// Quantities with their units as people write them in input files: "450 GB/s", "1.2 us", "80 GiB",
// "989 TFLOP/s". GB = 1e9 bytes, GiB = 2^30; Gbit/s = 1e9 bits/s. A bare number or an unknown unit
// is an Error that names `where`.
#pragma once

#include <string_view>

#include "core/units.h"

namespace trireme {

Bytes parse_bytes(std::string_view text, std::string_view where);  // B kB MB GB TB KiB MiB GiB TiB
BytesPerSecond parse_bandwidth(std::string_view text,
                               std::string_view where);  // B/s … TB/s, Gbit/s, Mbit/s
Seconds parse_duration(std::string_view text, std::string_view where);  // ps ns us ms s
FlopPerSecond parse_flop_rate(std::string_view text,
                              std::string_view where);                    // GFLOP/s TFLOP/s PFLOP/s
double parse_power_watts(std::string_view text, std::string_view where);  // W kW

// As parse_bytes, but a bare whole number is bytes too: the command line's `--bytes 1MiB,65536`.
Bytes parse_byte_count(std::string_view text, std::string_view where);

}  // namespace trireme
