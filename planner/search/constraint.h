// What a person wants of a layout: `--constraint 'tp<=8'`, and choices fixed by layout flags.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan/plan.h"

namespace trireme::planner {

enum class ConstraintAxis : std::uint8_t {
  kTensor,
  kPipeline,
  kVirtual,
  kContext,
  kExpert,
  kExpertTensor,
  kSharded,
  kReplicas,
  kDataParallel,
  kMicroBatch,
  kMicroBatches
};
enum class Comparison : std::uint8_t { kLess, kLessEqual, kEqual, kGreaterEqual, kGreater };

struct Constraint {
  ConstraintAxis axis = ConstraintAxis::kTensor;
  Comparison comparison = Comparison::kLessEqual;
  std::int64_t number = 1;
};

// "tp<=8", "micro_batch = 2". Throws Error, listing the axes.
Constraint parse_constraint(const std::string& text);
bool satisfies(const Constraint& constraint, const Plan& plan);

// Choices that are not numbers of an axis.
struct FixedChoices {
  std::optional<Sharding> sharding;
  std::optional<Schedule> schedule;
  std::optional<Recompute> recompute;
  std::optional<std::int64_t> recompute_layers;
  std::optional<std::uint16_t> recompute_modules;
  std::optional<bool> sequence_parallel;
  std::optional<std::int64_t> fsdp_unit;
  std::vector<std::int64_t> stage_layers;  // empty: even, and by cost
};

}  // namespace trireme::planner
