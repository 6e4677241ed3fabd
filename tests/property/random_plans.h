// Seeded random models and plans that are legal and can be lowered: what the property tests draw
// from.
#pragma once

#include <cstdint>
#include <string>

#include "core/random.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::tests {

using Random = RandomStream;

struct RandomCase {
  planner::Job job;
  planner::Plan plan;
  [[nodiscard]] std::string describe() const;
};

// Models of 1 to 8 layers and a few dozen columns, plans of up to 64 ranks with every axis and
// choice that lower() knows. Always the same for a seed.
RandomCase random_case(std::uint64_t seed);

// A number that the environment may give: how many cases, from which seed.
std::uint64_t from_environment(const char* name, std::uint64_t otherwise);

}  // namespace trireme::tests
