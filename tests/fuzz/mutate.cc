#include "mutate.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

namespace trireme::fuzz {
namespace {

using nlohmann::json;

// Values that readers have met badly before: extremes, wrong types, near-numbers.
json bad_value(Random& random) {
  const std::vector<json> values = {
      nullptr,
      true,
      false,
      0,
      1,
      -1,
      7,
      0.5,
      -0.0,
      1e308,
      -1e308,
      5e-324,
      std::numeric_limits<std::int64_t>::max(),
      std::numeric_limits<std::int64_t>::min(),
      std::numeric_limits<std::uint64_t>::max(),
      1'000'000'000,
      100'000,
      "",
      "4096",
      "-1 GB/s",
      "1e400 GB/s",
      "nan us",
      "80 parsecs",
      std::string(10'000, 'x'),
      json::array(),
      json::object(),
      json::array({1, -1, "a", nullptr}),
      json{{"a", 1}},
  };
  return values[random.below(values.size())];
}

// A walk to one value, chosen a step at a time.
json* choose(json& root, Random& random) {
  json* at = &root;
  while (at->is_structured() && !at->empty() && random.below(4) != 0) {
    auto item = at->begin();
    std::advance(item, static_cast<std::ptrdiff_t>(random.below(at->size())));
    at = &*item;
  }
  return at;
}

}  // namespace

void spoil_tree(json& root, Random& random) {
  json* at = choose(root, random);
  if (at->is_object() && !at->empty()) {
    auto item = at->begin();
    std::advance(item, static_cast<std::ptrdiff_t>(random.below(at->size())));
    switch (random.below(4)) {
      case 0:
        at->erase(item.key());
        return;
      case 1: {
        json value = std::move(item.value());
        const std::string key = item.key() + "_";
        at->erase(item.key());
        (*at)[key] = std::move(value);
        return;
      }
      default:
        item.value() = bad_value(random);
        return;
    }
  }
  if (at->is_number_integer() && random.below(2) == 0) {
    // Nearby numbers break divisibility and bounds by one.
    *at = at->get<std::int64_t>() / 2 + static_cast<std::int64_t>(random.below(3)) - 1;
    return;
  }
  *at = bad_value(random);
}

void spoil_text(std::string& text, Random& random) {
  static const std::vector<std::string> kTokens = {
      "NaN", "-", "1e999", "{", "}", "[", "\"", "\\", ",", ":", "\xff", "\n", "Infinity"};
  if (text.empty()) {
    return;
  }
  const std::size_t at = random.below(text.size());
  const std::size_t length = 1 + random.below(std::min<std::size_t>(40, text.size() - at));
  switch (random.below(5)) {
    case 0:
      text.resize(at);
      return;
    case 1:
      text.erase(at, length);
      return;
    case 2:
      text.insert(at, text.substr(at, length));
      return;
    case 3:
      text[at] = static_cast<char>(random.below(256));
      return;
    default:
      text.insert(at, kTokens[random.below(kTokens.size())]);
      return;
  }
}

std::string mutate(const std::string& text, std::uint64_t seed) {
  Random random(seed);
  json tree = json::parse(text);
  const bool in_tree = random.below(4) != 0;
  std::string spoiled = text;
  for (std::size_t i = 0; i <= random.below<std::size_t>(3); ++i) {
    if (in_tree) {
      spoil_tree(tree, random);
    } else {
      spoil_text(spoiled, random);
    }
  }
  return in_tree ? tree.dump() : spoiled;
}

std::uint64_t case_count(std::uint64_t usual) {
  const char* given = std::getenv("TRIREME_FUZZ_CASES");
  return given == nullptr ? usual : std::strtoull(given, nullptr, 10);
}

}  // namespace trireme::fuzz
