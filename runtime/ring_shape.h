// Which part of a rank's queries and of a member's keys meet at one step round a ring of context
// ranks, on every backend. core/kernels.h says what the kernels over them do.
#pragma once

#include <cstdint>

namespace trireme::runtime {

struct RingShape {
  std::int64_t batch = 0, tokens = 0;  // of each sequence, on this rank
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0, v_dim = 0;
  std::int64_t place = 0, step = 0;
  double scale = 1;  // of the scores

  [[nodiscard]] std::int64_t kv() const { return kv_heads * (head_dim + v_dim); }
  [[nodiscard]] std::int64_t qkv() const { return heads * head_dim + kv(); }
  [[nodiscard]] std::int64_t out() const { return heads * v_dim; }
  // The keys are the own ones, those of a later member, or those of an earlier one.
  [[nodiscard]] bool own() const { return step == 0; }
  [[nodiscard]] bool later() const { return step > place; }
  [[nodiscard]] bool earlier() const { return !own() && !later(); }
  // Of a sequence's tokens here: which queries see keys, and how many keys are seen.
  [[nodiscard]] std::int64_t first_query() const { return later() ? tokens / 2 : 0; }
  [[nodiscard]] std::int64_t queries() const { return tokens - first_query(); }
  [[nodiscard]] std::int64_t keys() const { return earlier() ? tokens / 2 : tokens; }
};

}  // namespace trireme::runtime
