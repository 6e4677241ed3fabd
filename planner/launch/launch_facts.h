// What tables of fields and of refusals ask of what is launched.
#pragma once

#include "planner/launch/refusals.h"

namespace trireme::planner {

inline bool trains(const LaunchPlan& l) {
  return l.form == LaunchForm::kTraining;
}
inline bool mixes_types(const Job& job) {
  return job.precision != topologies::Precision::kFp32;
}
inline bool is_mixed(const Launched& l) {
  return mixes_types(l.job);
}
inline bool is_fp16(const Launched& l) {
  return l.job.precision == topologies::Precision::kFp16;
}
inline bool is_fp8(const Launched& l) {
  return l.job.precision == topologies::Precision::kFp8;
}
inline bool has_experts(const Launched& l) {
  return l.job.model.moe.has_value();
}
inline bool is_pipeline(const Launched& l) {
  return l.plan.pipeline > 1;
}
inline bool offloads_optimizer(const Launched& l) {
  return l.job.offload.optimizer != OffloadTo::kNone;
}

}  // namespace trireme::planner
