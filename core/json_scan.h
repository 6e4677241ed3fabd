// What a JSON parser does not say of a text: how deep it nests, and keys that it drops.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

struct RepeatedKey {
  std::string key;
  std::size_t line = 0;  // of its second place, counted from 1
};

struct JsonScan {
  int depth = 0;  // lists and objects standing in each other
  // The first object that ends with a key it has had before: a parser keeps the last value only.
  std::optional<RepeatedKey> repeated;
};

// Of any text; `repeated` means something when the text is JSON.
JsonScan scan_json(std::string_view text);

}  // namespace trireme
