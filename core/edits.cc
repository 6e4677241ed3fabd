#include "core/edits.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace trireme {
namespace {

constexpr std::size_t kLongest = 64;  // of a name that is compared: the work grows with its square

// Edits from `a` to each beginning of `b`, the empty one first.
std::vector<std::size_t> edits_to_beginnings(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row;
}

}  // namespace

std::size_t edits_between(std::string_view a, std::string_view b) {
  return edits_to_beginnings(a.substr(0, kLongest), b.substr(0, kLongest)).back();
}

std::size_t edits_to_a_beginning(std::string_view begun, std::string_view whole) {
  return std::ranges::min(
      edits_to_beginnings(begun.substr(0, kLongest), whole.substr(0, kLongest)));
}

bool is_a_slip(std::string_view wrong, std::string_view name) {
  const std::size_t most = wrong.size() < 8 ? 1 : wrong.size() < 16 ? 2 : 3;
  const std::size_t apart =  // at least so many edits, without the square's work
      wrong.size() > name.size() ? wrong.size() - name.size() : name.size() - wrong.size();
  return wrong != name && wrong.size() <= kLongest && apart <= most &&
         edits_between(wrong, name) <= most;
}

}  // namespace trireme
