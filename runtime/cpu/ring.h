// Attention round a ring of context ranks: of this rank's queries over the keys and values of one
// member at a time, merged by their statistics. core/kernels.h says what each does.
#pragma once

#include <cstdint>

namespace trireme::runtime::cpu {

struct RingShape {
  std::int64_t batch = 0, tokens = 0;  // of each sequence, on this rank
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0, v_dim = 0;
  std::int64_t ranks = 1, place = 0, step = 0;
  double scale = 1;  // of the scores

  [[nodiscard]] std::int64_t kv() const { return kv_heads * (head_dim + v_dim); }
  [[nodiscard]] std::int64_t qkv() const { return heads * head_dim + kv(); }
  [[nodiscard]] std::int64_t out() const { return heads * v_dim; }
  // The keys are the own ones, those of an earlier member, or those of a later one.
  [[nodiscard]] bool own() const { return step == 0; }
  [[nodiscard]] bool later() const { return step > place; }
  // Of a sequence's tokens here: which queries see keys, and which keys are seen.
  [[nodiscard]] std::int64_t first_query() const { return later() ? tokens / 2 : 0; }
  [[nodiscard]] std::int64_t queries() const { return tokens - first_query(); }
  [[nodiscard]] std::int64_t keys() const { return own() || later() ? tokens : tokens / 2; }
};

template <typename T>
void ring_attention_forward(const RingShape& shape, const T* qkv, const T* kv, T* y, T* lse);
template <typename T>
void ring_merge(const RingShape& shape, const T* y, const T* lse, T* sum, T* all);
template <typename T>
void ring_attention_backward(const RingShape& shape, const T* dy, const T* qkv, const T* kv,
                             const T* y, const T* lse, T* dqkv, T* dkv);

}  // namespace trireme::runtime::cpu
