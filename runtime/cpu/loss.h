// Cross-entropy over logits whose vocabulary is split over ranks, in the three pieces between which
// the ranks reduce (Shoeybi et al. 2019, section 3): the rows' maxima, then their exponential sums
// and the target's logit, then the gradient in place of the logits. One rank runs the same pieces
// without the reductions.
#pragma once

#include <cstdint>

namespace trireme::runtime::cpu {

struct LogitShape {
  std::int64_t rows = 0;   // tokens
  std::int64_t width = 0;  // vocabulary entries of this shard
  std::int64_t first = 0;  // the shard's first entry
  std::int64_t vocabulary =
      0;  // real entries of the whole vocabulary: those at and past it are padding, never chosen
  double multiplier = 1, cap = 0;  // a logit is cap(multiplier * x); cap 0: as it is
};

// maxima[row] = the largest real logit of this shard (-inf when it has none); sums[row] = sum of
// exp(logit - maxima[row]); target_logits[row] = the target's logit, 0 when it is in another shard.
template <typename T>
void logit_statistics(const LogitShape& shape, const T* logits, const std::int32_t* targets,
                      T* maxima, T* sums, T* target_logits);

// sums[row] *= exp(local_maxima[row] - global_maxima[row]).
template <typename T>
void statistics_rescale(std::int64_t rows, const T* local_maxima, const T* global_maxima, T* sums);

// The sum over rows of maxima + log(sums) - target_logits.
template <typename T>
T loss_sum(std::int64_t rows, const T* maxima, const T* sums, const T* target_logits);

// logits become (softmax - one_hot(target)) * scale; padding becomes 0.
template <typename T>
void loss_gradient(const LogitShape& shape, T* logits, const std::int32_t* targets, const T* maxima,
                   const T* sums, T scale);

}  // namespace trireme::runtime::cpu
