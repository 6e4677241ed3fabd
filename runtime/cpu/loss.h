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
};

// maxima[row] = the largest real logit of this shard (-inf when it has none).
template <typename T>
void loss_maxima(const LogitShape& shape, const T* logits, T* maxima);

// sums[row] = sum of exp(logit - maxima[row]); target_logits[row] = logit - maxima of the target, 0
// when elsewhere.
template <typename T>
void loss_sums(const LogitShape& shape, const T* logits, const std::int32_t* targets,
               const T* maxima, T* sums, T* target_logits);

// loss[row] = log(sums) - target_logits.
template <typename T>
void loss_values(std::int64_t rows, const T* sums, const T* target_logits, T* losses);

// dlogits = (softmax - one_hot(target)) * scale; `dlogits` may be `logits`.
template <typename T>
void loss_gradient(const LogitShape& shape, const T* logits, const std::int32_t* targets,
                   const T* maxima, const T* sums, T scale, T* dlogits);

}  // namespace trireme::runtime::cpu
