// Numbers as people type them after an option.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <sstream>

#include "core/error.h"
#include "tools/options.h"

namespace trireme::tools {

std::int64_t parse_count(const std::string& text, const std::string& where, std::int64_t low,
                         std::int64_t high) {
  std::int64_t value = 0;
  const bool thousands = text.size() > 1 && (text.back() == 'k' || text.back() == 'K');
  const char* end = text.data() + text.size() - (thousands ? 1 : 0);
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  constexpr std::int64_t kThousand = 1024;  // "8k" tokens are 8192
  value *= thousands && value < high ? kThousand : 1;
  if (failure != std::errc() || stop != end || value < low || value > high) {
    throw Error(where,
                fmt::format("'{}' is wrong; a whole number from {} to {} is expected (8k is 8192)",
                            text, low, high));
  }
  return value;
}

double parse_number(const std::string& text, const std::string& where, double low, double high) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  if (failure != std::errc() || stop != end || !std::isfinite(value) || value < low ||
      value > high) {
    throw Error(where,
                fmt::format("'{}' is wrong; a number from {} to {} is expected", text, low, high));
  }
  return value;
}

std::vector<std::int64_t> parse_counts(const std::string& text, const std::string& where) {
  std::vector<std::int64_t> counts;
  std::istringstream stream(text + ",");
  for (std::string part; std::getline(stream, part, ',');) {
    counts.push_back(parse_count(part, where, 0));
  }
  return counts;
}

void check_recompute_options(const std::string& recompute, bool layers, bool modules) {
  if (layers && modules) {
    throw Error("--recompute-layers",
                "is of full recompute and --recompute-modules of selective; one of them would be "
                "right");
  }
  const char* whose = layers ? "full" : "selective";
  if ((layers || modules) && !recompute.empty() && recompute != whose) {
    throw Error(
        layers ? "--recompute-layers" : "--recompute-modules",
        fmt::format("has no meaning beside --recompute {}; --recompute {} would be right, or "
                    "leave one of them out",
                    recompute, whose));
  }
}

}  // namespace trireme::tools
