#include "planner/plan/sample_lengths.h"

#include <algorithm>
#include <cmath>

namespace trireme::planner {

namespace {

bool is_uniform(const Job& job) {
  return job.training.lengths.empty() || job.training.batching == Batching::kFull;
}

std::int64_t rounded(double tokens) {
  return std::max<std::int64_t>(1, std::llround(tokens));
}

}  // namespace

std::int64_t timed_sequence(const Job& job, const Plan& plan) {
  if (is_uniform(job)) {
    return job.sequence;
  }
  switch (job.training.batching) {
    case Batching::kPadded:
      return rounded(expected_longest(job.training, job.sequence, plan.micro_batch));
    case Batching::kUnpadded:
      return rounded(mean_length(job.training, job.sequence));
    case Batching::kFull:
    case Batching::kPacked:
      break;
  }
  return job.sequence;
}

std::int64_t longest_sequence(const Job& job, const Plan& plan) {
  if (is_uniform(job) || job.training.batching == Batching::kPacked) {
    return job.sequence;
  }
  const auto longest =
      static_cast<double>(std::min(job.sequence, job.training.lengths.back().tokens));
  if (job.training.batching == Batching::kPadded) {
    return rounded(longest);
  }
  const double mean = mean_length(job.training, job.sequence);
  return rounded(mean + (longest - mean) / static_cast<double>(plan.micro_batch));
}

double attention_share(const Job& job, const Plan& plan) {
  if (is_uniform(job) || job.training.batching == Batching::kPadded) {
    return 1;
  }
  return std::min(1.0, attended_length(job) / static_cast<double>(timed_sequence(job, plan)));
}

double real_tokens(const Job& job) {
  if (is_uniform(job) || job.training.batching == Batching::kPacked) {
    return static_cast<double>(job.sequence);
  }
  return mean_length(job.training, job.sequence);
}

double attended_length(const Job& job) {
  if (is_uniform(job)) {
    return static_cast<double>(job.sequence);
  }
  return mean_square_length(job.training, job.sequence) / mean_length(job.training, job.sequence);
}

}  // namespace trireme::planner
