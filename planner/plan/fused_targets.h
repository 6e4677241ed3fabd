// Adapters beside layers that are one matrix: q, k and v, or gate and up, have one adapter then,
// which reads their input once. Bits beside those of AdapterTarget (planner/plan/training.h).
#pragma once

#include <cstdint>

#include "planner/plan/training.h"

namespace trireme::planner {

inline constexpr std::uint16_t kTargetFusedQkv = 256;
inline constexpr std::uint16_t kTargetFusedMlp = 512;
static_assert(kTargetFusedQkv > kTargetHead);

}  // namespace trireme::planner
