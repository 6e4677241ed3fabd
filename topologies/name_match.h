// Names as people write them: "NVIDIA A100-SXM4-80GB", "a100 80gb".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::topologies {

// Lower case letters and digits only, without the vendor's words (NVIDIA, AMD, Instinct, GeForce,
// Tesla).
std::string normalized_name(std::string_view name);

// The `count` names nearest to `wrong`, those that contain it first, then by edits to a beginning
// of them, joined with ", ": for the error about an unknown name.
std::string nearest_names(std::string_view wrong, const std::vector<std::string>& names,
                          std::size_t count = 3);

}  // namespace trireme::topologies
