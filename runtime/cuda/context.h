// The kernels of context parallelism, by the conventions of runtime/cuda/kernels.h.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace trireme::runtime::cuda {

// `rows` rows of `width` elements of each of `batch` sequences.
struct RowMove {
  std::int64_t batch, rows, width, from_batch, from_row, to_batch, to_row;
};
void copy_rows(cudaStream_t stream, const RowMove& move, const __nv_bfloat16* from,
               __nv_bfloat16* to);
void add_rows(cudaStream_t stream, const RowMove& move, const __nv_bfloat16* from,
              __nv_bfloat16* to);

// Attention of the same queries over two sets of keys: y[batch, rows, heads, head_size] over the
// first (sequences y_batch apart) becomes that over both, with its statistics in lse[batch, heads,
// lse_row]. `other` and both packed statistics [batch, heads, rows] are of `rows` rows; `other`
// null: there are no other keys.
struct SoftmaxMerge {
  std::int64_t batch, rows, heads, head_size, y_batch, lse_row;
};
void merge_softmax(cudaStream_t stream, const SoftmaxMerge& merge, const __nv_bfloat16* other,
                   const float* first_lse, const float* other_lse, __nv_bfloat16* y, float* lse);

// The same over any number of sets, in fp32: `first` on, the tokens' sum[batch, tokens, heads,
// value_size] and all[batch, heads, tokens] take in packed y and lse of `tokens - first` rows, or
// begin as these.
struct RingMerge {
  std::int64_t batch, tokens, first, heads, value_size;
  bool begins;
};
void merge_ring(cudaStream_t stream, const RingMerge& merge, const __nv_bfloat16* y,
                const float* lse, float* sum, float* all);

}  // namespace trireme::runtime::cuda
