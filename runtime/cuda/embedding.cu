// Token and position embeddings.
#include "runtime/cuda/device_math.cuh"
#include "runtime/cuda/kernels.h"

namespace trireme::runtime::cuda {
namespace {

__global__ void embedding_forward_kernel(const std::int32_t* tokens, const Bf16* table, Bf16* y,
                                         std::int64_t hidden, std::int64_t table_rows,
                                         std::int64_t first_row, float multiplier) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t source = tokens[row] - first_row;
  const bool here = source >= 0 && source < table_rows;
  float values[kVector] = {};
  for (std::int64_t j = threadIdx.x * kVector; j < hidden; j += blockDim.x * kVector) {
    if (here) {
      load8(table + source * hidden + j, values);
      for (float& value : values) {
        value *= multiplier;
      }
    }
    store8(y + row * hidden + j, values);
  }
}

// The block of a token's first occurrence adds up all of its occurrences in order; other blocks
// leave. Every warp looks at the same 32 tokens at a time, so the whole block agrees on the
// matches.
__global__ void embedding_backward_kernel(const std::int32_t* tokens, const Bf16* dy, float* dtable,
                                          std::int64_t rows, std::int64_t hidden,
                                          std::int64_t table_rows, std::int64_t first_row,
                                          float multiplier) {
  const std::int64_t row = blockIdx.x;
  const std::int32_t token = tokens[row];
  const std::int64_t target = token - first_row;
  if (target < 0 || target >= table_rows) {
    return;
  }
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t base = 0; base < row; base += 32) {
    const std::int64_t i = base + lane;
    if (__any_sync(0xffffffffU, i < row && tokens[i] == token) != 0) {
      return;
    }
  }
  for (std::int64_t base = row; base < rows; base += 32) {
    const std::int64_t i = base + lane;
    unsigned int matches = __ballot_sync(0xffffffffU, i < rows && tokens[i] == token);
    while (matches != 0) {
      const Bf16* gradient = dy + (base + __ffs(static_cast<int>(matches)) - 1) * hidden;
      matches &= matches - 1;
      for (std::int64_t j = threadIdx.x; j < hidden; j += blockDim.x) {
        dtable[target * hidden + j] += multiplier * __bfloat162float(gradient[j]);
      }
    }
  }
}

__global__ void position_forward_kernel(Bf16* y, const Bf16* table, std::int64_t hidden,
                                        Positions positions, std::int64_t first_token) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t position = position_of(positions, first_token + row);
  for (std::int64_t j = threadIdx.x; j < hidden; j += blockDim.x) {
    Bf16& value = y[row * hidden + j];
    value =
        __float2bfloat16(__bfloat162float(value) + __bfloat162float(table[position * hidden + j]));
  }
}

__global__ void position_backward_kernel(const Bf16* dy, float* dtable, std::int64_t rows,
                                         std::int64_t hidden, Positions positions,
                                         std::int64_t first_token) {
  const std::int64_t own = positions.own;
  const std::int64_t position = position_of(positions, blockIdx.x);
  const std::int64_t first = (blockIdx.x - first_token % own + own) % own;
  for (std::int64_t j = threadIdx.x; j < hidden; j += blockDim.x) {
    float sum = 0.0F;
    for (std::int64_t row = first; row < rows; row += own) {
      sum += __bfloat162float(dy[row * hidden + j]);
    }
    dtable[position * hidden + j] += sum;
  }
}

}  // namespace

void embedding_forward(cudaStream_t stream, const std::int32_t* tokens, const Bf16* table, Bf16* y,
                       std::int64_t rows, std::int64_t hidden, std::int64_t table_rows,
                       std::int64_t first_row, float multiplier) {
  embedding_forward_kernel<<<static_cast<unsigned int>(rows), kThreads, 0, stream>>>(
      tokens, table, y, hidden, table_rows, first_row, multiplier);
}

void embedding_backward(cudaStream_t stream, const std::int32_t* tokens, const Bf16* dy,
                        float* dtable, std::int64_t rows, std::int64_t hidden,
                        std::int64_t table_rows, std::int64_t first_row, bool accumulate,
                        float multiplier) {
  if (!accumulate) {
    cudaMemsetAsync(dtable, 0, static_cast<std::size_t>(table_rows * hidden) * sizeof(float),
                    stream);
  }
  embedding_backward_kernel<<<static_cast<unsigned int>(rows), kThreads, 0, stream>>>(
      tokens, dy, dtable, rows, hidden, table_rows, first_row, multiplier);
}

void position_forward(cudaStream_t stream, Bf16* y, const Bf16* table, std::int64_t rows,
                      std::int64_t hidden, const Positions& positions, std::int64_t first_token) {
  position_forward_kernel<<<static_cast<unsigned int>(rows), kThreads, 0, stream>>>(
      y, table, hidden, positions, first_token);
}

void position_backward(cudaStream_t stream, const Bf16* dy, float* dtable, std::int64_t rows,
                       std::int64_t hidden, const Positions& positions, std::int64_t table_rows,
                       std::int64_t first_token, bool accumulate) {
  if (!accumulate) {
    cudaMemsetAsync(dtable, 0, static_cast<std::size_t>(table_rows * hidden) * sizeof(float),
                    stream);
  }
  position_backward_kernel<<<static_cast<unsigned int>(positions.own), kThreads, 0, stream>>>(
      dy, dtable, rows, hidden, positions, first_token);
}

}  // namespace trireme::runtime::cuda
