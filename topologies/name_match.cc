#include "topologies/name_match.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <tuple>

#include "core/edits.h"

namespace trireme::topologies {
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
  std::vector<std::tuple<std::size_t, std::size_t, std::string>> ranked;
  for (const std::string& name : names) {
    const std::string known = normalized_name(name);
    // What was left off at the end is no mistake: dgx-a100 means one of dgx-a100-40gb, -80gb.
    const bool within = wanted.size() >= 3 && known.find(wanted) != std::string::npos;
    ranked.emplace_back(within ? 0 : edits_to_a_beginning(wanted, known),
                        edits_between(wanted, known), name);
  }
  std::ranges::sort(ranked);
  std::string joined;
  for (std::size_t i = 0; i < std::min(count, ranked.size()); ++i) {
    joined += (joined.empty() ? "" : ", ") + std::get<2>(ranked[i]);
  }
  return joined;
}

}  // namespace trireme::topologies
