// Token and position embeddings.
#include "runtime/cuda/device_math.cuh"
#include "runtime/cuda/kernels.h"

namespace trireme::runtime::cuda {
namespace {

__global__ void embedding_forward_kernel(const std::int32_t* tokens, const Bf16* table, Bf16* y,
                                         std::int64_t hidden, std::int64_t table_rows,
                                         std::int64_t first_row) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t source = tokens[row] - first_row;
  const bool here = source >= 0 && source < table_rows;
  for (std::int64_t j = threadIdx.x; j < hidden; j += blockDim.x) {
    y[row * hidden + j] = here ? table[source * hidden + j] : __float2bfloat16(0.0F);
  }
}

// The block of a token's first occurrence adds up all of its occurrences in order; other blocks
// leave.
__global__ void embedding_backward_kernel(const std::int32_t* tokens, const Bf16* dy, float* dtable,
                                          std::int64_t rows, std::int64_t hidden,
                                          std::int64_t table_rows, std::int64_t first_row) {
  extern __shared__ std::int32_t matches[];  // indices of the occurrences found in one sweep
  __shared__ int seen_before;
  const std::int64_t row = blockIdx.x;
  const std::int32_t token = tokens[row];
  const std::int64_t target = token - first_row;
  if (target < 0 || target >= table_rows) {
    return;
  }
  if (threadIdx.x == 0) {
    seen_before = 0;
  }
  __syncthreads();
  int found = 0;
  for (std::int64_t i = threadIdx.x; i < row; i += blockDim.x) {
    found |= tokens[i] == token ? 1 : 0;
  }
  if (found != 0) {
    seen_before = 1;
  }
  __syncthreads();
  if (seen_before != 0) {
    return;
  }
  for (std::int64_t base = row; base < rows; base += blockDim.x) {
    const std::int64_t i = base + threadIdx.x;
    matches[threadIdx.x] = i < rows && tokens[i] == token ? 1 : 0;
    __syncthreads();
    for (int k = 0; k < static_cast<int>(blockDim.x); ++k) {
      if (matches[k] == 0) {
        continue;
      }
      const Bf16* gradient = dy + (base + k) * hidden;
      for (std::int64_t j = threadIdx.x; j < hidden; j += blockDim.x) {
        dtable[target * hidden + j] += __bfloat162float(gradient[j]);
      }
    }
    __syncthreads();
  }
}

__global__ void position_forward_kernel(Bf16* y, const Bf16* table, std::int64_t hidden,
                                        std::int64_t sequence, std::int64_t first_token) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t position = (first_token + row) % sequence;
  for (std::int64_t j = threadIdx.x; j < hidden; j += blockDim.x) {
    Bf16& value = y[row * hidden + j];
    value =
        __float2bfloat16(__bfloat162float(value) + __bfloat162float(table[position * hidden + j]));
  }
}

__global__ void position_backward_kernel(const Bf16* dy, float* dtable, std::int64_t rows,
                                         std::int64_t hidden, std::int64_t sequence,
                                         std::int64_t first_token) {
  const std::int64_t position = blockIdx.x;
  const std::int64_t first = (position - first_token % sequence + sequence) % sequence;
  for (std::int64_t j = threadIdx.x; j < hidden; j += blockDim.x) {
    float sum = 0.0F;
    for (std::int64_t row = first; row < rows; row += sequence) {
      sum += __bfloat162float(dy[row * hidden + j]);
    }
    dtable[position * hidden + j] += sum;
  }
}

}  // namespace

void embedding_forward(cudaStream_t stream, const std::int32_t* tokens, const Bf16* table, Bf16* y,
                       std::int64_t rows, std::int64_t hidden, std::int64_t table_rows,
                       std::int64_t first_row) {
  embedding_forward_kernel<<<static_cast<unsigned int>(rows), kThreads, 0, stream>>>(
      tokens, table, y, hidden, table_rows, first_row);
}

void embedding_backward(cudaStream_t stream, const std::int32_t* tokens, const Bf16* dy,
                        float* dtable, std::int64_t rows, std::int64_t hidden,
                        std::int64_t table_rows, std::int64_t first_row, bool accumulate) {
  if (!accumulate) {
    cudaMemsetAsync(dtable, 0, static_cast<std::size_t>(table_rows * hidden) * sizeof(float),
                    stream);
  }
  embedding_backward_kernel<<<static_cast<unsigned int>(rows), kThreads,
                              kThreads * sizeof(std::int32_t), stream>>>(
      tokens, dy, dtable, rows, hidden, table_rows, first_row);
}

void position_forward(cudaStream_t stream, Bf16* y, const Bf16* table, std::int64_t rows,
                      std::int64_t hidden, std::int64_t sequence, std::int64_t first_token) {
  position_forward_kernel<<<static_cast<unsigned int>(rows), kThreads, 0, stream>>>(
      y, table, hidden, sequence, first_token);
}

void position_backward(cudaStream_t stream, const Bf16* dy, float* dtable, std::int64_t rows,
                       std::int64_t hidden, std::int64_t sequence, std::int64_t table_rows,
                       std::int64_t first_token, bool accumulate) {
  if (!accumulate) {
    cudaMemsetAsync(dtable, 0, static_cast<std::size_t>(table_rows * hidden) * sizeof(float),
                    stream);
  }
  position_backward_kernel<<<static_cast<unsigned int>(sequence), kThreads, 0, stream>>>(
      dy, dtable, rows, hidden, sequence, first_token);
}

}  // namespace trireme::runtime::cuda
