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

}  // namespace trireme::tests
