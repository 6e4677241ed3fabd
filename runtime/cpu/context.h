// Attention whose queries are one context rank's and whose keys are everybody's. core/kernels.h
// says what each does.
#pragma once

#include <cstdint>

namespace trireme::runtime::cpu {

struct ContextShape {
  std::int64_t batch = 0, sequence = 0, heads = 0, kv_heads = 0, head_dim = 0, v_dim = 0,
               window = 0;
  std::int64_t ranks = 1, place = 0;
  double scale = 1;  // of the scores

  [[nodiscard]] std::int64_t own() const { return sequence / ranks; }  // tokens of a sequence here
  [[nodiscard]] std::int64_t qkv() const { return heads * head_dim + kv(); }
  [[nodiscard]] std::int64_t kv() const { return kv_heads * (head_dim + v_dim); }
};

template <typename T>
void keys_out(std::int64_t tokens, const ContextShape& shape, const T* qkv, T* kv);
template <typename T>
void keys_in(std::int64_t tokens, const ContextShape& shape, const T* dkv, T* dqkv);
template <typename T>
void rows_in_order(const ContextShape& shape, std::int64_t width, const T* x, T* y, bool inverse);
template <typename T>
void spread_heads(std::int64_t tokens, const ContextShape& shape, const T* x, T* y, bool inverse);
template <typename T>
void context_attention_forward(const ContextShape& shape, const T* qkv, const T* kv, T* y, T* lse);
template <typename T>
void context_attention_backward(const ContextShape& shape, const T* dy, const T* qkv, const T* kv,
                                const T* y, const T* lse, T* dqkv, T* dkv);

}  // namespace trireme::runtime::cpu
