// How near two names are: for errors that say which one was meant.
#pragma once

#include <cstddef>
#include <string_view>

namespace trireme {

// Edits (insert, delete, replace one letter) from one name to the other: Levenshtein's distance.
std::size_t edits_between(std::string_view a, std::string_view b);
// The fewest edits from `begun` to any beginning of `whole`: what was left off at the end is no
// mistake.
std::size_t edits_to_a_beginning(std::string_view begun, std::string_view whole);
// So few edits that one of the two was surely meant for the other: 1 in names under 8 letters, 2
// under 16, else 3.
bool is_a_slip(std::string_view wrong, std::string_view name);

}  // namespace trireme
