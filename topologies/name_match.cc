#include "topologies/name_match.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>

namespace trireme::topologies {
namespace {

// Levenshtein distance, one row at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string normalized_name(std::string_view name) {
  constexpr std::array<std::string_view, 5> kVendorWords = {"nvidia", "amd", "instinct", "geforce",
                                                            "tesla"};
  std::string plain;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) {
      plain += static_cast<char>(std::tolower(byte));
    }
  }
  for (const std::string_view word : kVendorWords) {
    if (plain.starts_with(word)) {
      plain.erase(0, word.size());
    }
  }
  return plain;
}

std::string nearest_names(std::string_view wrong, const std::vector<std::string>& names,
                          std::size_t count) {
  const std::string wanted = normalized_name(wrong);
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const std::string& name : names) {
    const std::string known = normalized_name(name);
    // What was left off at the end is no mistake: dgx-a100 means one of dgx-a100-40gb, -80gb.
    const bool begun = !wanted.empty() && known.starts_with(wanted);
    const bool within = wanted.size() >= 3 && known.find(wanted) != std::string::npos;
    ranked.emplace_back(begun || within ? 0 : edit_distance(wanted, known), name);
  }
  std::ranges::sort(ranked);
  std::string joined;
  for (std::size_t i = 0; i < std::min(count, ranked.size()); ++i) {
    joined += (joined.empty() ? "" : ", ") + ranked[i].second;
  }
  return joined;
}

}  // namespace trireme::topologies
