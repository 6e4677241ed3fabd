// Tokens that a micro-batch of samples of varying lengths computes and holds, per sequence of it.
#pragma once

#include <cstdint>

#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// Computed on average: the whole sequence when full or packed, the longest of the micro-batch when
// padded, the mean when samples are laid end to end.
std::int64_t timed_sequence(const Job& job, const Plan& plan);
// Held at the peak.
std::int64_t longest_sequence(const Job& job, const Plan& plan);
// Attention's scores over those of one sample that fills the timed sequence: attention stays within
// a sample, so its work goes with the sum of the squares of the lengths.
double attention_share(const Job& job, const Plan& plan);
// Tokens of samples, without padding, in one sequence of the batch.
double real_tokens(const Job& job);
// The length whose attention has as many scores a token as the samples do: of FLOP counts.
double attended_length(const Job& job);

}  // namespace trireme::planner
