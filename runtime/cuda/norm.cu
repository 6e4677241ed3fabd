// RMS norm and layer norm, forward and backward, and the per-head norm of q and k. Sums are in
// fp32.
#include "runtime/cuda/device_math.cuh"
#include "runtime/cuda/kernels.h"

namespace trireme::runtime::cuda {
namespace {

constexpr int kBackwardBlocks = 528;  // four a multiprocessor of an H100

// Two vectors a thread: short rows leave room for more of them on a multiprocessor.
int threads_of_row(std::int64_t hidden) {
  const std::int64_t wanted = (hidden / (2 * kVector) + 31) / 32 * 32;
  return static_cast<int>(wanted < 64 ? 64 : wanted > kThreads ? kThreads : wanted);
}

template <bool kCentred>
__global__ void norm_forward_kernel(const Bf16* x, const Bf16* weight, const Bf16* bias, Bf16* y,
                                    float* mean_out, float* rstd_out, std::int64_t hidden,
                                    NormNumbers numbers) {
  __shared__ float shared[32];
  const std::int64_t row = blockIdx.x;
  const Bf16* source = x + row * hidden;
  float values[kVector];
  float sum = 0.0F;
  if (kCentred) {
    for (std::int64_t j = threadIdx.x * kVector; j < hidden; j += blockDim.x * kVector) {
      load8(source + j, values);
      for (float value : values) {
        sum += value;
      }
    }
    sum = block_sum(sum, shared);
  }
  const float mean = kCentred ? sum / static_cast<float>(hidden) : 0.0F;
  float squares = 0.0F;
  for (std::int64_t j = threadIdx.x * kVector; j < hidden; j += blockDim.x * kVector) {
    load8(source + j, values);
    for (float value : values) {
      squares += (value - mean) * (value - mean);
    }
  }
  const float rstd =
      rsqrtf(block_sum(squares, shared) / static_cast<float>(hidden) + numbers.epsilon);
  if (threadIdx.x == 0) {
    rstd_out[row] = rstd;
    if (kCentred) {
      mean_out[row] = mean;
    }
  }
  for (std::int64_t j = threadIdx.x * kVector; j < hidden; j += blockDim.x * kVector) {
    float scale[kVector];
    float shift[kVector] = {};
    load8(source + j, values);
    load8(weight + j, scale);
    if (kCentred) {
      load8(bias + j, shift);
    }
    for (int i = 0; i < kVector; ++i) {
      values[i] = (values[i] - mean) * rstd * (scale[i] + numbers.weight_offset) + shift[i];
    }
    store8(y + row * hidden + j, values);
  }
}

// Where shared memory holds the sum of column j + i, so that neighbouring threads use neighbouring
// banks.
__device__ inline std::int64_t place_of_sum(std::int64_t j, int i, std::int64_t hidden) {
  return i * (hidden / kVector) + j / kVector;
}

// Each block walks every kBackwardBlocks-th row and keeps its share of dweight and dbias in shared
// memory, of which a thread only touches its own columns; the blocks' shares are added up in order
// by column_sum_kernel.
template <bool kCentred>
__global__ void norm_backward_kernel(NormBackward norm, float* partial) {
  extern __shared__ float weight_sums[];  // [hidden] and, when centred, [hidden] more for the bias
  __shared__ float shared[32];
  const std::int64_t hidden = norm.hidden;
  for (std::int64_t j = threadIdx.x; j < (kCentred ? 2 : 1) * hidden; j += blockDim.x) {
    weight_sums[j] = 0.0F;
  }
  __syncthreads();
  for (std::int64_t row = blockIdx.x; row < norm.rows; row += gridDim.x) {
    const float rstd = norm.rstd[row];
    const float mean = kCentred ? norm.mean[row] : 0.0F;
    float x[kVector];
    float dy[kVector];
    float scale[kVector];
    float dot = 0.0F;  // sum of dy * weight * normalised x
    float sum = 0.0F;  // sum of dy * weight
    for (std::int64_t j = threadIdx.x * kVector; j < hidden; j += blockDim.x * kVector) {
      load8(norm.x + row * hidden + j, x);
      load8(norm.dy + row * hidden + j, dy);
      load8(norm.weight + j, scale);
      for (int i = 0; i < kVector; ++i) {
        const float normalised = (x[i] - mean) * rstd;
        scale[i] += norm.numbers.weight_offset;
        dot += dy[i] * scale[i] * normalised;
        sum += dy[i] * scale[i];
        weight_sums[place_of_sum(j, i, hidden)] += dy[i] * normalised;
        if (kCentred) {
          weight_sums[hidden + place_of_sum(j, i, hidden)] += dy[i];
        }
      }
    }
    const float mean_dot = block_sum(dot, shared) / static_cast<float>(hidden);
    const float mean_sum = kCentred ? block_sum(sum, shared) / static_cast<float>(hidden) : 0.0F;
    for (std::int64_t j = threadIdx.x * kVector; j < hidden; j += blockDim.x * kVector) {
      float added[kVector] = {};
      load8(norm.x + row * hidden + j, x);
      load8(norm.dy + row * hidden + j, dy);
      load8(norm.weight + j, scale);
      if (norm.residual != nullptr) {
        load8(norm.residual + row * hidden + j, added);
      }
      for (int i = 0; i < kVector; ++i) {
        const float normalised = (x[i] - mean) * rstd;
        scale[i] += norm.numbers.weight_offset;
        dy[i] = rstd * (dy[i] * scale[i] - mean_sum - normalised * mean_dot) + added[i];
      }
      store8(norm.dx + row * hidden + j, dy);
    }
  }
  __syncthreads();
  const std::int64_t width = (kCentred ? 2 : 1) * hidden;
  for (std::int64_t j = threadIdx.x; j < hidden; j += blockDim.x) {
    const std::int64_t place =
        place_of_sum(j / kVector * kVector, static_cast<int>(j % kVector), hidden);
    partial[blockIdx.x * width + j] = weight_sums[place];
    if (kCentred) {
      partial[blockIdx.x * width + hidden + j] = weight_sums[hidden + place];
    }
  }
}

constexpr int kColumns = 32;  // of a block of column_sum_kernel
constexpr int kSumRows = 32;  // its rows of threads share the parts
constexpr int kRowsEach = 8;  // of a block of norm_backward_kernel, where rows are few
constexpr int kFewestBlocks = 132;

// Adds the parts of columns [0, columns) to `target`.
__global__ void column_sum_kernel(const float* partial, int parts, std::int64_t stride,
                                  float* target, std::int64_t columns, bool accumulate) {
  __shared__ float sums[kSumRows][kColumns + 1];
  const int column = static_cast<int>(threadIdx.x) % kColumns;
  const int row = static_cast<int>(threadIdx.x) / kColumns;
  const std::int64_t j = static_cast<std::int64_t>(blockIdx.x) * kColumns + column;
  float sum = 0.0F;
  if (j < columns) {
    for (int part = row; part < parts; part += kSumRows) {
      sum += partial[part * stride + j];
    }
  }
  sums[row][column] = sum;
  __syncthreads();
  if (row == 0 && j < columns) {
    sum = accumulate ? target[j] : 0.0F;
    for (int i = 0; i < kSumRows; ++i) {
      sum += sums[i][column];
    }
    target[j] = sum;
  }
}

void sum_columns(cudaStream_t stream, const float* partial, int parts, std::int64_t stride,
                 float* target, std::int64_t columns, bool accumulate) {
  column_sum_kernel<<<blocks_for(columns, kColumns), kColumns * kSumRows, 0, stream>>>(
      partial, parts, stride, target, columns, accumulate);
}

int backward_blocks(std::int64_t rows) {
  const std::int64_t wanted = rows / kRowsEach;
  return static_cast<int>(wanted < kFewestBlocks     ? kFewestBlocks
                          : wanted > kBackwardBlocks ? kBackwardBlocks
                                                     : wanted);
}

template <bool kCentred>
void launch_norm_backward(cudaStream_t stream, const NormBackward& norm, Scratch scratch) {
  const std::int64_t width = (kCentred ? 2 : 1) * norm.hidden;
  const std::size_t shared = static_cast<std::size_t>(width) * sizeof(float);
  const int blocks = backward_blocks(norm.rows);
  if (shared > 48 * 1024) {
    cudaFuncSetAttribute(norm_backward_kernel<kCentred>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
  }
  norm_backward_kernel<kCentred><<<blocks, kThreads, shared, stream>>>(norm, scratch.data);
  sum_columns(stream, scratch.data, blocks, width, norm.dweight, norm.hidden, norm.accumulate);
  if (kCentred) {
    sum_columns(stream, scratch.data + norm.hidden, blocks, width, norm.dbias, norm.hidden,
                norm.accumulate);
  }
}

// One warp a head of a token; v heads are copied.
__global__ void head_norm_forward_kernel(HeadNorm norm) {
  const std::int64_t width = (norm.heads + 2 * norm.kv_heads) * norm.head_size;
  const std::int64_t row = blockIdx.x;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t head = threadIdx.x / 32; head < norm.heads + 2 * norm.kv_heads;
       head += blockDim.x / 32) {
    const Bf16* source = norm.input + row * width + head * norm.head_size;
    Bf16* target = norm.output + row * width + head * norm.head_size;
    if (head >= norm.heads + norm.kv_heads) {
      for (std::int64_t j = lane; j < norm.head_size; j += 32) {
        target[j] = source[j];
      }
      continue;
    }
    const Bf16* weight = head < norm.heads ? norm.q_weight : norm.k_weight;
    float squares = 0.0F;
    for (std::int64_t j = lane; j < norm.head_size; j += 32) {
      const float value = __bfloat162float(source[j]);
      squares += value * value;
    }
    const float rstd =
        rsqrtf(warp_sum(squares) / static_cast<float>(norm.head_size) + norm.numbers.epsilon);
    if (lane == 0) {
      norm.rstd[row * (norm.heads + norm.kv_heads) + head] = rstd;
    }
    for (std::int64_t j = lane; j < norm.head_size; j += 32) {
      target[j] = __float2bfloat16(__bfloat162float(source[j]) * rstd *
                                   (__bfloat162float(weight[j]) + norm.numbers.weight_offset));
    }
  }
}

// Warps of a block add to their own row of shared sums: [warps][2][head_size].
__global__ void head_norm_backward_kernel(HeadNorm norm, float* partial) {
  extern __shared__ float sums[];
  const std::int64_t size = norm.head_size;
  const std::int64_t width = (norm.heads + 2 * norm.kv_heads) * size;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  float* own = sums + warp * 2 * size;
  for (std::int64_t j = lane; j < 2 * size; j += 32) {
    own[j] = 0.0F;
  }
  for (std::int64_t row = blockIdx.x; row < norm.rows; row += gridDim.x) {
    for (std::int64_t head = warp; head < norm.heads + 2 * norm.kv_heads; head += warps) {
      const std::int64_t at = row * width + head * size;
      if (head >= norm.heads + norm.kv_heads) {
        for (std::int64_t j = lane; j < size; j += 32) {
          norm.output[at + j] = norm.input[at + j];
        }
        continue;
      }
      const bool is_query = head < norm.heads;
      const Bf16* weight = is_query ? norm.q_weight : norm.k_weight;
      const float rstd = norm.rstd[row * (norm.heads + norm.kv_heads) + head];
      float dot = 0.0F;
      for (std::int64_t j = lane; j < size; j += 32) {
        const float normalised = __bfloat162float(norm.x[at + j]) * rstd;
        const float dy = __bfloat162float(norm.input[at + j]);
        dot += dy * (__bfloat162float(weight[j]) + norm.numbers.weight_offset) * normalised;
        own[(is_query ? 0 : size) + j] += dy * normalised;
      }
      const float mean_dot = warp_sum(dot) / static_cast<float>(size);
      for (std::int64_t j = lane; j < size; j += 32) {
        const float normalised = __bfloat162float(norm.x[at + j]) * rstd;
        const float dy = __bfloat162float(norm.input[at + j]);
        const float scale = __bfloat162float(weight[j]) + norm.numbers.weight_offset;
        norm.output[at + j] = __float2bfloat16(rstd * (dy * scale - normalised * mean_dot));
      }
    }
  }
  __syncthreads();
  for (std::int64_t j = threadIdx.x; j < 2 * size; j += blockDim.x) {
    float sum = 0.0F;
    for (int w = 0; w < warps; ++w) {
      sum += sums[w * 2 * size + j];
    }
    partial[blockIdx.x * 2 * size + j] = sum;
  }
}

}  // namespace

std::size_t scratch_bytes(std::int64_t columns) {
  return static_cast<std::size_t>(kBackwardBlocks) * 2 *
         static_cast<std::size_t>(columns > 1024 ? columns : 1024) * sizeof(float);
}

void rms_norm_forward(cudaStream_t stream, const Bf16* x, const Bf16* weight, Bf16* y, float* rstd,
                      std::int64_t rows, std::int64_t hidden, NormNumbers numbers) {
  norm_forward_kernel<false>
      <<<static_cast<unsigned int>(rows), threads_of_row(hidden), 0, stream>>>(
          x, weight, nullptr, y, nullptr, rstd, hidden, numbers);
}

void layer_norm_forward(cudaStream_t stream, const Bf16* x, const Bf16* weight, const Bf16* bias,
                        Bf16* y, float* mean, float* rstd, std::int64_t rows, std::int64_t hidden,
                        NormNumbers numbers) {
  norm_forward_kernel<true><<<static_cast<unsigned int>(rows), threads_of_row(hidden), 0, stream>>>(
      x, weight, bias, y, mean, rstd, hidden, numbers);
}

void norm_backward(cudaStream_t stream, const NormBackward& norm, Scratch scratch) {
  if (norm.mean != nullptr) {
    launch_norm_backward<true>(stream, norm, scratch);
  } else {
    launch_norm_backward<false>(stream, norm, scratch);
  }
}

void head_norm_forward(cudaStream_t stream, const HeadNorm& norm) {
  head_norm_forward_kernel<<<static_cast<unsigned int>(norm.rows), kThreads, 0, stream>>>(norm);
}

void head_norm_backward(cudaStream_t stream, const HeadNorm& norm, Scratch scratch) {
  const std::size_t shared =
      static_cast<std::size_t>(kThreads / 32 * 2 * norm.head_size) * sizeof(float);
  head_norm_backward_kernel<<<kBackwardBlocks, kThreads, shared, stream>>>(norm, scratch.data);
  const std::int64_t stride = 2 * norm.head_size;
  sum_columns(stream, scratch.data, kBackwardBlocks, stride, norm.dq_weight, norm.head_size,
              norm.accumulate);
  sum_columns(stream, scratch.data + norm.head_size, kBackwardBlocks, stride, norm.dk_weight,
              norm.head_size, norm.accumulate);
}

}  // namespace trireme::runtime::cuda
