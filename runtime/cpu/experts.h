// Routed experts on the reference backend: the choice of experts, the order of rows by expert, and
// products of each expert with its rows. core/kernels.h says what each does.
#pragma once

#include <cstdint>

#include "runtime/cpu/matmul.h"

namespace trireme::runtime::cpu {

struct RouteShape {
  std::int64_t tokens = 0, experts = 0, chosen = 0;  // `chosen`: experts a token
  bool sigmoid = false, biased = false;
  bool normalises = true;  // weights sum to `scale`
  double scale = 1;
  std::int64_t groups = 0, groups_chosen = 0;  // groups 0: experts stand in none
  bool groups_by_two = true;                   // best by the sum of the two largest, or the largest
};
template <typename T>
void route_forward(const RouteShape& shape, const T* logits, const T* bias, T* weights,
                   std::int32_t* experts);
template <typename T>
void route_backward(const RouteShape& shape, const T* dweights, const T* weights,
                    const std::int32_t* experts, const T* logits, T* dlogits);

void expert_places(std::int64_t slots, std::int64_t experts, const std::int32_t* chosen,
                   std::int32_t* places, std::int32_t* counts);

struct RowsShape {
  std::int64_t tokens = 0, chosen = 0, width = 0;
};
template <typename T>
void permute_rows(const RowsShape& shape, const T* x, const std::int32_t* places, T* y);
// `weights` null: the plain sum.
template <typename T>
void combine_rows(const RowsShape& shape, const T* y, const std::int32_t* places, const T* weights,
                  T* x);
template <typename T>
void combine_backward(const RowsShape& shape, const T* dx, const T* y, const std::int32_t* places,
                      const T* weights, T* dy, T* dweights);

// Rows that `senders` ranks sent to `experts` of them: counts[sender, expert].
struct ArrivedShape {
  std::int64_t senders = 1, experts = 1;
};
template <typename T>
void regroup_rows(const ArrivedShape& arrived, std::int64_t width, const std::int32_t* counts,
                  const T* x, T* y, bool inverse);
// The rows' number in `shape` (m, with transpose_a k) is not read.
template <typename T>
void expert_matmul(const MatmulShape& shape, const ArrivedShape& arrived,
                   const std::int32_t* counts, const T* a, const T* b, T* c, bool accumulate);

}  // namespace trireme::runtime::cpu
