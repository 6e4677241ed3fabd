// Spoils JSON texts the way people and broken tools do: cut short, of another type, out of range.
// Every case follows from its seed alone.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace trireme::fuzz {

// splitmix64: the same numbers on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  // From 0 to bound - 1; 0 when bound is 0.
  std::size_t below(std::size_t bound);

 private:
  std::uint64_t state_;
};

// One to three spoilings of a JSON text, in its tree or in its characters.
std::string mutate(const std::string& text, std::uint64_t seed);

// Replaces, removes or renames one value anywhere in the tree.
void spoil_tree(nlohmann::json& json, Random& random);
// Cuts, repeats or replaces characters.
void spoil_text(std::string& text, Random& random);

// How many cases a test runs: `usual`, or what the environment's TRIREME_FUZZ_CASES says.
std::uint64_t case_count(std::uint64_t usual);

}  // namespace trireme::fuzz
