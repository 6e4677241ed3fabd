// a{b,c}, {1..8} and {01..16..2} before anything else is worked out (bash manual, Brace Expansion).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme::planner {

// The raw words that one becomes; itself where it has no such braces.
std::vector<std::string> without_braces(std::string_view raw);

}  // namespace trireme::planner
