// The names of an enum's values, in one table that both printing and parsing read.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

// constexpr EnumNames kNames(std::to_array<std::pair<Colour, std::string_view>>({{kRed, "red"},
// …}));
template <typename Enum, std::size_t N>
struct EnumNames {
  std::array<std::pair<Enum, std::string_view>, N> rows;

  constexpr explicit EnumNames(std::array<std::pair<Enum, std::string_view>, N> table)
      : rows(table) {}

  // Empty for a value that the table does not list.
  [[nodiscard]] constexpr std::string_view name_of(Enum value) const {
    for (const auto& [known, name] : rows) {
      if (known == value) {
        return name;
      }
    }
    return {};
  }
  // Nothing for another word.
  [[nodiscard]] constexpr std::optional<Enum> value_of(std::string_view name) const {
    for (const auto& [value, known] : rows) {
      if (known == name) {
        return value;
      }
    }
    return {};
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& row : rows) {
      all.emplace_back(row.second);
    }
    return all;
  }
  // "a, b or c", as messages list what would be right.
  [[nodiscard]] std::string choices() const {
    std::string text;
    for (std::size_t i = 0; i < N; ++i) {
      text += i == 0 ? "" : i + 1 == N ? " or " : ", ";
      text += rows[i].second;
    }
    return text;
  }
};

template <typename Enum, std::size_t N>
EnumNames(std::array<std::pair<Enum, std::string_view>, N>) -> EnumNames<Enum, N>;

}  // namespace trireme
