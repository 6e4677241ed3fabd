// Words that the files of layer times share.
#pragma once

#include "planner/plan/job.h"
#include "planner/plan/plan.h"
#include "planner/plan/sample_lengths.h"

namespace trireme::planner {

inline constexpr double kActivationBytes = 2;

// Bytes of the residual stream of one micro-batch, before tensor parallelism: 2 s b h / c.
inline double stream_bytes(const Job& job, const Plan& plan) {
  return kActivationBytes * static_cast<double>(plan.micro_batch) *
         static_cast<double>(timed_sequence(job, plan)) * static_cast<double>(job.model.hidden) /
         static_cast<double>(plan.context);
}

}  // namespace trireme::planner
