#include "runtime/cpu/ring.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/cpu/attention.h"

namespace trireme::runtime::cpu {
namespace {

// Of one sequence. Both halves of the own tokens lie in the order of their positions.
AttentionShape one_sequence(const RingShape& s) {
  return {.batch = 1,
          .heads = s.heads,
          .kv_heads = s.kv_heads,
          .query_length = s.queries(),
          .key_length = s.keys(),
          .query_offset = 0,
          .qk_dim = s.head_dim,
          .v_dim = s.v_dim,
          .window = 0,
          .causal = s.own(),
          .scale = s.scale};
}

}  // namespace

template <typename T>
void ring_attention_forward(const RingShape& s, const T* qkv, const T* kv, T* y, T* lse) {
  for (std::int64_t b = 0; b < s.batch; ++b) {
    const T* q = qkv + (b * s.tokens + s.first_query()) * s.qkv();
    const T* keys = kv + b * s.tokens * s.kv();
    attention_forward<T>(one_sequence(s), {q, s.qkv()}, {keys, s.kv()},
                         {keys + s.kv_heads * s.head_dim, s.kv()},
                         {y + b * s.queries() * s.out(), s.out()}, lse + b * s.heads * s.queries());
  }
}

// The online softmax: what both parts have of the exponentials' sum over all keys are their
// weights.
template <typename T>
void ring_merge(const RingShape& s, const T* y, const T* lse, T* sum, T* all) {
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t head = 0; head < s.heads; ++head) {
      for (std::int64_t i = 0; i < s.queries(); ++i) {
        const std::int64_t token = b * s.tokens + s.first_query() + i;
        const T* part = y + ((b * s.queries() + i) * s.heads + head) * s.v_dim;
        T* whole = sum + (token * s.heads + head) * s.v_dim;
        const T of_part = lse[(b * s.heads + head) * s.queries() + i];
        T& of_all = all[(b * s.heads + head) * s.tokens + s.first_query() + i];
        if (s.own()) {
          of_all = of_part;
          std::copy_n(part, s.v_dim, whole);
          continue;
        }
        const T largest = std::max(of_part, of_all);
        const T merged =
            largest + std::log(std::exp(of_part - largest) + std::exp(of_all - largest));
        const T kept = std::exp(of_all - merged);
        const T added = std::exp(of_part - merged);
        for (std::int64_t d = 0; d < s.v_dim; ++d) {
          whole[d] = kept * whole[d] + added * part[d];
        }
        of_all = merged;
      }
    }
  }
}

template <typename T>
void ring_attention_backward(const RingShape& s, const T* dy, const T* qkv, const T* kv, const T* y,
                             const T* lse, T* dqkv, T* dkv) {
  const std::int64_t width = s.heads * s.head_dim;
  std::fill_n(dkv, s.batch * s.tokens * s.kv(), T(0));
  std::vector<T> statistics(static_cast<std::size_t>(s.heads * s.queries()));
  std::vector<T> dq(static_cast<std::size_t>(s.queries() * width));
  for (std::int64_t b = 0; b < s.batch; ++b) {
    const std::int64_t row = b * s.tokens + s.first_query();
    for (std::int64_t head = 0; head < s.heads; ++head) {
      std::copy_n(lse + (b * s.heads + head) * s.tokens + s.first_query(), s.queries(),
                  statistics.data() + head * s.queries());
    }
    const T* keys = kv + b * s.tokens * s.kv();
    T* dkeys = dkv + b * s.tokens * s.kv();
    const std::int64_t values = s.kv_heads * s.head_dim;
    attention_backward<T>(one_sequence(s), {qkv + row * s.qkv(), s.qkv()}, {keys, s.kv()},
                          {keys + values, s.kv()}, {y + row * s.out(), s.out()}, statistics.data(),
                          {dy + row * s.out(), s.out()}, {dq.data(), width}, {dkeys, s.kv()},
                          {dkeys + values, s.kv()});
    for (std::int64_t i = 0; i < s.queries(); ++i) {
      T* to = dqkv + (row + i) * s.qkv();
      for (std::int64_t d = 0; d < width; ++d) {
        to[d] += dq[static_cast<std::size_t>(i * width + d)];
      }
    }
  }
}

template void ring_attention_forward<float>(const RingShape&, const float*, const float*, float*,
                                            float*);
template void ring_attention_forward<double>(const RingShape&, const double*, const double*,
                                             double*, double*);
template void ring_merge<float>(const RingShape&, const float*, const float*, float*, float*);
template void ring_merge<double>(const RingShape&, const double*, const double*, double*, double*);
template void ring_attention_backward<float>(const RingShape&, const float*, const float*,
                                             const float*, const float*, const float*, float*,
                                             float*);
template void ring_attention_backward<double>(const RingShape&, const double*, const double*,
                                              const double*, const double*, const double*, double*,
                                              double*);

}  // namespace trireme::runtime::cpu
