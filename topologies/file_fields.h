// Fields that several readers of the topology file have.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "core/json_reader.h"

namespace trireme::topologies {

template <typename Enum, std::size_t N>
using NameTable = std::array<std::pair<std::string_view, Enum>, N>;

template <typename Enum, std::size_t N>
Enum parse_name(JsonReader& reader, const std::string& key, const NameTable<Enum, N>& table) {
  const std::string text = reader.text(key);
  std::string known;
  for (const auto& [name, value] : table) {
    if (name == text) {
      return value;
    }
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  reader.fail(key, "is '" + text + "'; use one of " + known);
}

template <typename Enum, std::size_t N>
std::string name_of(Enum value, const NameTable<Enum, N>& table) {
  return std::string(
      std::ranges::find(table, value, [](const auto& entry) { return entry.second; })->first);
}

constexpr std::int64_t kNodesMost = 10'000'000;  // of a cluster

inline BytesPerSecond positive_bandwidth(JsonReader& reader, const std::string& key) {
  const BytesPerSecond value = reader.bandwidth(key);
  if (value.value <= 0.0) {
    reader.fail(key, "is 0; it must be more than 0");
  }
  return value;
}

}  // namespace trireme::topologies
