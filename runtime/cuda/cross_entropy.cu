// The vocabulary-parallel loss in the pieces between which collectives stand. fp32 logits are never
// kept: every pass reads bf16 and sums in fp32.
#include "runtime/cuda/device_math.cuh"
#include "runtime/cuda/kernels.h"

namespace trireme::runtime::cuda {
namespace {

constexpr int kLossThreads = 512;

// Columns of this rank that are words of the vocabulary, the rest being padding.
__host__ __device__ inline std::int64_t real_columns(std::int64_t columns, std::int64_t vocabulary,
                                                     std::int64_t first_column) {
  const std::int64_t left = vocabulary - first_column;
  return left < 0 ? 0 : (left < columns ? left : columns);
}

__device__ inline float logit_of(const LogitNumbers& numbers, float x) {
  const float scaled = numbers.multiplier * x;
  return numbers.cap > 0.0F ? numbers.cap * tanhf(scaled / numbers.cap) : scaled;
}

// What a logit changes by its operand.
__device__ inline float slope_of(const LogitNumbers& numbers, float logit) {
  const float bent = numbers.cap > 0.0F ? logit / numbers.cap : 0.0F;
  return numbers.multiplier * (1.0F - bent * bent);
}

// One pass: every thread keeps a running maximum and the sum relative to it, merged at the end in a
// fixed order.
__global__ void logit_statistics_kernel(const Bf16* logits, const std::int32_t* targets,
                                        float* local_max, float* sums, std::int64_t rows,
                                        std::int64_t columns, std::int64_t real,
                                        std::int64_t first_column, LogitNumbers numbers) {
  __shared__ float shared[32];
  const std::int64_t row = blockIdx.x;
  const Bf16* source = logits + row * columns;
  float maximum = -INFINITY;
  float sum = 0.0F;
  const std::int64_t whole = columns % kVector == 0 ? real / kVector * kVector : 0;
  for (std::int64_t j = threadIdx.x * kVector; j < whole; j += blockDim.x * kVector) {
    float values[kVector];
    load8(source + j, values);
    for (float& value : values) {
      value = logit_of(numbers, value);
    }
    float top = values[0];
    for (int i = 1; i < kVector; ++i) {
      top = fmaxf(top, values[i]);
    }
    if (top > maximum) {
      sum *= __expf(maximum - top);
      maximum = top;
    }
    for (float value : values) {
      sum += __expf(value - maximum);
    }
  }
  for (std::int64_t j = whole + threadIdx.x; j < real; j += blockDim.x) {
    const float value = logit_of(numbers, __bfloat162float(source[j]));
    if (value > maximum) {
      sum *= __expf(maximum - value);
      maximum = value;
    }
    sum += __expf(value - maximum);
  }
  const float row_max = block_max(maximum, shared);
  const float row_sum =
      block_sum(maximum == -INFINITY ? 0.0F : sum * __expf(maximum - row_max), shared);
  if (threadIdx.x == 0) {
    const std::int64_t target = targets[row] - first_column;
    local_max[row] = row_max;
    sums[row] = row_sum;
    sums[rows + row] =
        target >= 0 && target < real ? logit_of(numbers, __bfloat162float(source[target])) : 0.0F;
  }
}

__global__ void statistics_rescale_kernel(const float* local_max, const float* global_max,
                                          float* sums, std::int64_t rows) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < rows) {
    sums[i] = local_max[i] == -INFINITY ? 0.0F : sums[i] * __expf(local_max[i] - global_max[i]);
  }
}

__global__ void cross_entropy_loss_kernel(const float* global_max, const float* sums, float* loss,
                                          std::int64_t rows, double denominator) {
  __shared__ float shared[32];
  float sum = 0.0F;
  for (std::int64_t i = threadIdx.x; i < rows; i += blockDim.x) {
    sum += global_max[i] + logf(sums[i]) - sums[rows + i];
  }
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) {
    *loss += static_cast<float>(static_cast<double>(sum) / denominator);
  }
}

__global__ void cross_entropy_backward_kernel(Bf16* logits, const float* global_max,
                                              const float* sums, const std::int32_t* targets,
                                              std::int64_t columns, std::int64_t real,
                                              std::int64_t first_column, float scale,
                                              LogitNumbers numbers) {
  const std::int64_t row = blockIdx.x;
  Bf16* values_row = logits + row * columns;
  const std::int64_t target = targets[row] - first_column;
  const float maximum = global_max[row];
  const float factor = scale / sums[row];
  const std::int64_t whole = columns % kVector == 0 ? columns : 0;
  for (std::int64_t j = threadIdx.x * kVector; j < whole; j += blockDim.x * kVector) {
    float values[kVector];
    load8(values_row + j, values);
    for (int i = 0; i < kVector; ++i) {
      const float logit = logit_of(numbers, values[i]);
      const float probability = j + i < real ? __expf(logit - maximum) * factor : 0.0F;
      const float slope = j + i < real ? slope_of(numbers, logit) : 0.0F;
      values[i] = (probability - (j + i == target ? scale : 0.0F)) * slope;
    }
    store8(values_row + j, values);
  }
  for (std::int64_t j = whole + threadIdx.x; j < columns; j += blockDim.x) {
    const float logit = logit_of(numbers, __bfloat162float(values_row[j]));
    const float probability = j < real ? __expf(logit - maximum) * factor : 0.0F;
    const float slope = j < real ? slope_of(numbers, logit) : 0.0F;
    values_row[j] = __float2bfloat16((probability - (j == target ? scale : 0.0F)) * slope);
  }
}

}  // namespace

void logit_statistics(cudaStream_t stream, const Bf16* logits, const std::int32_t* targets,
                      float* local_max, float* sums, std::int64_t rows, std::int64_t columns,
                      std::int64_t vocabulary, std::int64_t first_column, LogitNumbers numbers) {
  logit_statistics_kernel<<<static_cast<unsigned int>(rows), kLossThreads, 0, stream>>>(
      logits, targets, local_max, sums, rows, columns,
      real_columns(columns, vocabulary, first_column), first_column, numbers);
}

void statistics_rescale(cudaStream_t stream, const float* local_max, const float* global_max,
                        float* sums, std::int64_t rows) {
  statistics_rescale_kernel<<<blocks_for(rows, kThreads), kThreads, 0, stream>>>(
      local_max, global_max, sums, rows);
}

void cross_entropy_loss(cudaStream_t stream, const float* global_max, const float* sums,
                        float* loss, std::int64_t rows, double denominator) {
  cross_entropy_loss_kernel<<<1, 1024, 0, stream>>>(global_max, sums, loss, rows, denominator);
}

void cross_entropy_backward(cudaStream_t stream, Bf16* logits, const float* global_max,
                            const float* sums, const std::int32_t* targets, std::int64_t rows,
                            std::int64_t columns, std::int64_t vocabulary,
                            std::int64_t first_column, double denominator, LogitNumbers numbers) {
  cross_entropy_backward_kernel<<<static_cast<unsigned int>(rows), kLossThreads, 0, stream>>>(
      logits, global_max, sums, targets, columns, real_columns(columns, vocabulary, first_column),
      first_column, static_cast<float>(1.0 / denominator), numbers);
}

}  // namespace trireme::runtime::cuda
