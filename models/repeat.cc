// What backward repeats of a layer's forward, read off the table of parts.
#include <algorithm>
#include <iterator>

#include "models/work.h"

namespace trireme::models {
namespace {

template <typename Work>
void keep_where(const std::vector<Work>& from, bool (*keeps)(const PartTraits&, const Repeat&),
                const Repeat& repeat, std::vector<Work>& out) {
  std::copy_if(from.begin(), from.end(), std::back_inserter(out),
               [&](const Work& work) { return keeps(traits_of(work.part), repeat); });
}

bool repeats(const PartTraits& traits, const Repeat& repeat) {
  if (repeat.stops_early && traits.closes_layer) {
    return false;
  }
  return repeat.modules == kWholeLayer || (traits.modules & repeat.modules) != 0;
}

}  // namespace

PassWork repeated_work(const PassWork& forward, const Repeat& repeat) {
  PassWork again;
  if (repeat.modules != kWholeLayer && (repeat.modules & kTorchPerOp) != 0) {
    // Attention and every second product are kept; all passes are repeated. Grouped products of
    // routed experts are not on the policy's list (torchtitan distributed/activation_checkpoint.py:
    // aten.mm, and since 2025-09 the exchanges of tokens).
    bool kept = true;
    for (const Matmul& product : forward.matmuls) {
      const bool routed = traits_of(product.part).routed;
      if (routed || !kept) {
        again.matmuls.push_back(product);
      }
      kept = routed ? kept : !kept;
    }
    again.memory_bound = forward.memory_bound;
    return again;
  }
  keep_where(forward.matmuls, repeats, repeat, again.matmuls);
  keep_where(forward.memory_bound, repeats, repeat, again.memory_bound);
  if ((repeat.modules & kCoreAttention) != 0) {
    again.attention = forward.attention;
  }
  return again;
}

}  // namespace trireme::models
