// Causal grouped-query attention of the reference backend: exact, one (sequence, head) at a time,
// statistics kept as the flash kernels keep them (one log-sum-exp a query and head).
#pragma once

#include <cstdint>

namespace trireme::runtime::cpu {

struct AttentionShape {
  std::int64_t batch = 0;         // sequences
  std::int64_t heads = 0;         // query heads
  std::int64_t kv_heads = 0;      // divides heads
  std::int64_t query_length = 0;  // tokens of each sequence that ask
  std::int64_t key_length = 0;
  std::int64_t query_offset = 0;  // position of the first query among the keys
  std::int64_t qk_dim = 0;
  std::int64_t v_dim = 0;
  std::int64_t window = 0;  // sliding window in tokens; 0 = full
  bool causal = true;
  double scale = 1.0;
  double cap = 0;  // scores are cap * tanh(score / cap); 0: they are not
};

// Rows are tokens (sequence by sequence); `stride` is the distance between tokens, so packed qkv
// needs no copy.
template <typename T>
struct Rows {
  T* data = nullptr;
  std::int64_t stride = 0;
};

// output[token, head, v_dim]; log_sum_exp [batch, heads, query_length].
template <typename T>
void attention_forward(const AttentionShape& shape, Rows<const T> q, Rows<const T> k,
                       Rows<const T> v, Rows<T> output, T* log_sum_exp);

// dq, dk and dv are written.
template <typename T>
void attention_backward(const AttentionShape& shape, Rows<const T> q, Rows<const T> k,
                        Rows<const T> v, Rows<const T> output, const T* log_sum_exp,
                        Rows<const T> doutput, Rows<T> dq, Rows<T> dk, Rows<T> dv);

}  // namespace trireme::runtime::cpu
