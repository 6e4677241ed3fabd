#include "core/kernel_work.h"

#include <algorithm>

namespace trireme {
namespace {

double dim(const Work& work, std::size_t i) {
  return static_cast<double>(work.dims[i]);
}

// Scores of one head and sequence that a causal (and sliding) mask leaves: half the square counts
// as S*S/2, the convention of Megatron and FlashAttention; beyond the window each query sees
// `window` keys.
double scores(double sequence, double window) {
  if (window <= 0 || window >= sequence) {
    return sequence * sequence / 2;
  }
  return window * window / 2 + (sequence - window) * window;
}

// `value`: size of a value head.
double attention_flop(const Work& work, double value) {
  return 2 * dim(work, 0) * dim(work, 2) * (dim(work, 4) + value) *
         scores(dim(work, 1), dim(work, 5));
}

// Of one step round a ring: half of all pairs, at every step.
double ring_flop(const Work& work) {
  return 2 * dim(work, 0) * dim(work, 2) * (dim(work, 4) + dim(work, 5)) * scores(dim(work, 1), 0);
}

// Codes that a pass over experts' rows writes of each number; -1: it is none.
std::int64_t expert_codes(Kernel kernel) {
  if (kernel == Kernel::kExpertNarrowScale) {
    return 0;
  }
  const bool one = kernel == Kernel::kExpertNarrowCast || kernel == Kernel::kExpertNarrowTurned ||
                   kernel == Kernel::kExpertDelayedCast;
  const bool both = kernel == Kernel::kExpertNarrowBoth || kernel == Kernel::kExpertDelayedBoth;
  return one ? 1 : both ? 2 : -1;
}

}  // namespace

Flop kernel_flop(const Work& work) {
  const double product = 2 * dim(work, 0) * dim(work, 1) * dim(work, 2);
  if (work.kernel == Kernel::kMatmul || work.kernel == Kernel::kExpertMatmul ||
      work.kernel == Kernel::kNarrowMatmul || work.kernel == Kernel::kExpertNarrowMatmul ||
      work.kernel == Kernel::kBlockMatmul) {
    return Flop(product);
  }
  if (work.kernel == Kernel::kModelledMatmul) {
    return Flop(product * dim(work, 3));
  }
  if (work.kernel == Kernel::kAttentionForward) {
    return Flop(attention_flop(work, dim(work, 6)));
  }
  if (work.kernel == Kernel::kAttentionBackward) {
    return Flop(2.5 * attention_flop(work, dim(work, 6)));
  }
  if (work.kernel == Kernel::kContextAttentionForward) {
    return Flop(attention_flop(work, dim(work, 4)) / dim(work, 7));
  }
  if (work.kernel == Kernel::kContextAttentionBackward) {
    return Flop(2.5 * attention_flop(work, dim(work, 4)) / dim(work, 7));
  }
  if (work.kernel == Kernel::kRingAttentionForward) {
    return Flop(ring_flop(work));
  }
  if (work.kernel == Kernel::kRingAttentionBackward) {
    return Flop(2.5 * ring_flop(work));
  }
  if (work.kernel == Kernel::kModelledAttention) {
    const double forward =
        dim(work, 0) * dim(work, 1) * dim(work, 3) * dim(work, 4) * (dim(work, 5) + dim(work, 6));
    return Flop(work.dims[7] == 0 ? forward : 2.5 * forward);
  }
  return Flop(0);
}

Bytes kernel_traffic(const Work& work, Bytes operand_bytes, const ElementWidths& widths) {
  const std::int64_t tokens = work.dims[0];
  const std::int64_t hidden = work.dims[1];
  if (work.kernel == Kernel::kEmbeddingForward) {  // ids, the rows they name, the result
    return Bytes(tokens * (widths.token + 2 * hidden * widths.compute));
  }
  if (work.kernel == Kernel::kEmbeddingBackward) {
    const std::int64_t cleared = work.dims[4] == 0 ? work.dims[2] * hidden * widths.master : 0;
    return Bytes(tokens * (widths.token + hidden * (widths.compute + 2 * widths.master)) + cleared);
  }
  if (work.kernel == Kernel::kRotaryForward || work.kernel == Kernel::kRotaryBackward) {
    // Reads and writes q and k, not v.
    return Bytes(2 * tokens * (work.dims[1] + work.dims[2]) * work.dims[3] * widths.compute);
  }
  if (work.kernel == Kernel::kRegroupRows) {  // the rows of an even load, not the room for more
    return Bytes(2 * tokens * hidden * widths.compute);
  }
  if (const std::int64_t codes = expert_codes(work.kernel); codes >= 0) {
    return Bytes(tokens * hidden * (widths.compute + codes));
  }
  if (work.kernel == Kernel::kPositionForward) {
    return Bytes(3 * tokens * hidden * widths.compute);
  }
  return operand_bytes;
}

}  // namespace trireme
