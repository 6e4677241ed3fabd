// What tables of fields and of refusals ask of what is launched.
#pragma once

#include "planner/launch/export.h"

namespace trireme::planner {

inline bool trains(const LaunchPlan& l) {
  return l.form == LaunchForm::kTraining;
}
inline bool is_mixed(const LaunchPlan& l) {
  return l.job.precision != topologies::Precision::kFp32;
}
inline bool is_fp16(const LaunchPlan& l) {
  return l.job.precision == topologies::Precision::kFp16;
}
inline bool is_fp8(const LaunchPlan& l) {
  return l.job.precision == topologies::Precision::kFp8;
}
inline bool has_experts(const LaunchPlan& l) {
  return l.job.model.moe.has_value();
}
inline bool is_pipeline(const LaunchPlan& l) {
  return l.plan.pipeline > 1;
}
inline bool offloads_optimizer(const LaunchPlan& l) {
  return l.job.offload.optimizer != OffloadTo::kNone;
}

// What of an offload a format has no key for (offload_refusals.cc). Throws Error naming the part
// and what would be right.
void refuse_unknown_offload(LaunchFormat format, const LaunchPlan& launch);

}  // namespace trireme::planner
