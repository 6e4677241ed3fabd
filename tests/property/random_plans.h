// Seeded random models and plans that are legal and can be lowered: what the property tests draw
// from.
#pragma once

#include <cstdint>
#include <string>

#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::tests {

// A small generator whose numbers do not depend on the standard library (splitmix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  // Of 0 .. count - 1.
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(count));
  }
  bool chance(int percent) { return below(100) < percent; }

 private:
  std::uint64_t state_;
};

struct RandomCase {
  planner::Job job;
  planner::Plan plan;
  [[nodiscard]] std::string describe() const;
};

// Models of 1 to 8 layers and a few dozen columns, plans of up to 64 ranks with every axis and
// choice that lower() knows. Always the same for a seed.
RandomCase random_case(std::uint64_t seed);

}  // namespace trireme::tests
