// What attention over shared sequences needs beside fused attention: rows moved and added, and two
// softmaxes merged.
#include "runtime/cuda/context.h"
#include "runtime/cuda/device_math.cuh"

namespace trireme::runtime::cuda {
namespace {

// Blocks (row, sequence).
__global__ void move_kernel(RowMove move, const Bf16* from, Bf16* to, bool adds) {
  const Bf16* source = from + blockIdx.y * move.from_batch + blockIdx.x * move.from_row;
  Bf16* target = to + blockIdx.y * move.to_batch + blockIdx.x * move.to_row;
  for (std::int64_t i = threadIdx.x * kVector; i < move.width; i += blockDim.x * kVector) {
    float values[kVector];
    load8(source + i, values);
    if (adds) {
      float there[kVector];
      load8(target + i, there);
      for (int v = 0; v < kVector; ++v) {
        values[v] += there[v];
      }
    }
    store8(target + i, values);
  }
}

// Blocks (row, sequence), a warp a head: y and lse of the first keys and of others become those of
// all.
__global__ void merge_kernel(SoftmaxMerge merge, const Bf16* other, const float* first_lse,
                             const float* other_lse, Bf16* y, float* lse) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t sequence = blockIdx.y;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t head = threadIdx.x / 32; head < merge.heads; head += blockDim.x / 32) {
    const std::int64_t packed = (sequence * merge.heads + head) * merge.rows + row;
    const float a = first_lse[packed];
    float weight = 1.0F;
    float all = a;
    if (other != nullptr) {
      const float b = other_lse[packed];
      const float largest = fmaxf(a, b);
      all = largest + logf(expf(a - largest) + expf(b - largest));
      weight = expf(a - all);
      Bf16* own = y + sequence * merge.y_batch + (row * merge.heads + head) * merge.head_size;
      const Bf16* second =
          other + ((sequence * merge.rows + row) * merge.heads + head) * merge.head_size;
      for (std::int64_t i = lane; i < merge.head_size; i += 32) {
        own[i] = __float2bfloat16(weight * __bfloat162float(own[i]) +
                                  expf(b - all) * __bfloat162float(second[i]));
      }
    }
    if (lane == 0) {
      lse[(sequence * merge.heads + head) * merge.lse_row + row] = all;
    }
  }
}

// Blocks (row, sequence), a warp a head.
__global__ void ring_kernel(RingMerge merge, const Bf16* y, const float* lse, float* sum,
                            float* all) {
  const std::int64_t rows = merge.tokens - merge.first;
  const std::int64_t sequence = blockIdx.y;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t head = threadIdx.x / 32; head < merge.heads; head += blockDim.x / 32) {
    const float part = lse[(sequence * merge.heads + head) * rows + blockIdx.x];
    float* statistic =
        all + (sequence * merge.heads + head) * merge.tokens + merge.first + blockIdx.x;
    float whole = part;
    float kept = 0.0F;
    float added = 1.0F;
    if (!merge.begins) {
      const float before = *statistic;
      const float largest = fmaxf(part, before);
      whole = largest + logf(expf(part - largest) + expf(before - largest));
      kept = expf(before - whole);
      added = expf(part - whole);
    }
    const Bf16* from = y + ((sequence * rows + blockIdx.x) * merge.heads + head) * merge.value_size;
    float* to = sum + ((sequence * merge.tokens + merge.first + blockIdx.x) * merge.heads + head) *
                          merge.value_size;
    for (std::int64_t i = lane; i < merge.value_size; i += 32) {
      const float value = added * __bfloat162float(from[i]);
      to[i] = merge.begins ? value : kept * to[i] + value;
    }
    __syncwarp();  // all lanes have read it
    if (lane == 0) {
      *statistic = whole;
    }
  }
}

dim3 grid_of(std::int64_t rows, std::int64_t batch) {
  return {static_cast<unsigned int>(rows), static_cast<unsigned int>(batch)};
}

}  // namespace

void copy_rows(cudaStream_t stream, const RowMove& move, const Bf16* from, Bf16* to) {
  move_kernel<<<grid_of(move.rows, move.batch), kThreads, 0, stream>>>(move, from, to, false);
}

void add_rows(cudaStream_t stream, const RowMove& move, const Bf16* from, Bf16* to) {
  move_kernel<<<grid_of(move.rows, move.batch), kThreads, 0, stream>>>(move, from, to, true);
}

void merge_softmax(cudaStream_t stream, const SoftmaxMerge& merge, const Bf16* other,
                   const float* first_lse, const float* other_lse, Bf16* y, float* lse) {
  merge_kernel<<<grid_of(merge.rows, merge.batch), kThreads, 0, stream>>>(merge, other, first_lse,
                                                                          other_lse, y, lse);
}

void merge_ring(cudaStream_t stream, const RingMerge& merge, const Bf16* y, const float* lse,
                float* sum, float* all) {
  ring_kernel<<<grid_of(merge.tokens - merge.first, merge.batch), kThreads, 0, stream>>>(
      merge, y, lse, sum, all);
}

}  // namespace trireme::runtime::cuda
