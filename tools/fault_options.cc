#include "tools/fault_options.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "core/error.h"
#include "tools/options.h"

namespace trireme::tools {
namespace {

constexpr double kFactorLargest = 1e6;

// "rank3" with the word "rank": 3.
std::optional<std::int64_t> numbered(std::string_view text, std::string_view word) {
  if (!text.starts_with(word)) {
    return std::nullopt;
  }
  text.remove_prefix(word.size());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size() && number >= 0;
  return whole && number <= 0xffffffffLL ? std::optional(number) : std::nullopt;
}

// "1.2x@rank3": 1.2 and "rank3".
std::pair<double, std::string> split_at(const std::string& text, const std::string& where,
                                        const std::string& right) {
  const std::size_t at = text.find('@');
  if (at == std::string::npos) {
    throw Error(where, fmt::format("'{}' names no place; right is {}", text, right));
  }
  return {parse_factor(text.substr(0, at), where), text.substr(at + 1)};
}

}  // namespace

double parse_factor(const std::string& text, const std::string& where) {
  std::string number = text;
  if (!number.empty() && number.back() == 'x') {
    number.pop_back();
  }
  return parse_number(number, where, 0, kFactorLargest);
}

sim::Straggler parse_straggler(const std::string& text) {
  const std::string right = "1.2x@rank3 or 1.2x@stage2";
  const auto [factor, place] = split_at(text, "--straggler", right);
  sim::Straggler straggler;
  straggler.factor = factor;
  if (!(factor > 0)) {
    throw Error("--straggler", fmt::format("'{}': the factor must be above 0", text));
  }
  if (const auto rank = numbered(place, "rank")) {
    straggler.rank = static_cast<Rank>(*rank);
  } else if (const auto stage = numbered(place, "stage")) {
    straggler.stage = static_cast<StageIndex>(*stage);
  } else {
    throw Error("--straggler", fmt::format("'{}': '{}' is neither a rank nor a stage; right is {}",
                                           text, place, right));
  }
  return straggler;
}

sim::SlowLink parse_slow_link(const std::string& text) {
  const std::string right =
      "0.5x@node2.nic3, 0.5x@nic3 (a rail), 0.5x@node2, 0.5x@nics or 0.5x@nvlink";
  auto [factor, place] = split_at(text, "--slow-link", right);
  sim::SlowLink link;
  link.factor = factor;
  constexpr double kFactorLeast = 1e-6;
  if (factor < kFactorLeast) {
    throw Error("--slow-link", fmt::format("'{}': the factor must be {:g} or more; a link that "
                                           "carries nothing ends no step",
                                           text, kFactorLeast));
  }
  const std::size_t dot = place.find('.');
  const std::string first = place.substr(0, dot);
  if (const auto node = numbered(first, "node")) {
    link.node = *node;
    place = dot == std::string::npos ? "nics" : place.substr(dot + 1);
  }
  if (place == "nvlink") {
    link.kind = sim::SlowLink::Kind::kFastFabric;
  } else if (const auto nic = numbered(place, "nic")) {
    link.nic = static_cast<int>(std::min<std::int64_t>(*nic, 1'000'000));
  } else if (place != "nics") {
    throw Error("--slow-link",
                fmt::format("'{}': there is no '{}'; right is {}", text, place, right));
  }
  return link;
}

sim::Faults make_faults(const FaultOptions& options) {
  sim::Faults faults;
  for (const std::string& text : options.stragglers) {
    faults.stragglers.push_back(parse_straggler(text));
  }
  for (const std::string& text : options.slow_links) {
    faults.slow_links.push_back(parse_slow_link(text));
  }
  if (!options.jitter.empty()) {
    faults.jitter = parse_number(options.jitter, "--jitter", 0, 1);
  }
  if (!options.rank_spread.empty()) {
    faults.rank_spread = parse_number(options.rank_spread, "--rank-spread", 0, 1);
  }
  faults.seed = static_cast<std::uint64_t>(options.seed.value_or(0));
  return faults;
}

}  // namespace trireme::tools
