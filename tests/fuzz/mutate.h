// Spoils JSON texts the way people and broken tools do: cut short, of another type, out of range.
// Every case follows from its seed alone.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "core/random.h"

namespace trireme::fuzz {

using Random = RandomStream;

// One to three spoilings of a JSON text, in its tree or in its characters.
std::string mutate(const std::string& text, std::uint64_t seed);

// Replaces, removes or renames one value anywhere in the tree.
void spoil_tree(nlohmann::json& json, Random& random);
// Cuts, repeats or replaces characters.
void spoil_text(std::string& text, Random& random);

// How many cases a test runs: `usual`, or what the environment's TRIREME_FUZZ_CASES says.
std::uint64_t case_count(std::uint64_t usual);

}  // namespace trireme::fuzz
