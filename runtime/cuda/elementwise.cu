// Activations, biases, additions and casts: passes over memory.
#include <type_traits>

#include "runtime/cuda/device_math.cuh"
#include "runtime/cuda/kernels.h"

namespace trireme::runtime::cuda {
namespace {

__device__ inline float sigmoid(float x) {
  return 1.0F / (1.0F + __expf(-x));
}

__device__ inline std::int64_t global_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

constexpr float kGeluScale = 0.7978845608028654F;  // sqrt(2/pi)
constexpr float kGeluCubic = 0.044715F;
constexpr float kQuickGelu = 1.702F;
constexpr float kRootHalf = 0.7071067811865476F;

// An activation and its slope by what it activates.
template <Activation kAct>
__device__ inline float activate(float x) {
  if constexpr (kAct == Activation::kGelu) {
    return 0.5F * x * (1.0F + erff(x * kRootHalf));
  } else if constexpr (kAct == Activation::kGeluTanh) {
    return 0.5F * x * (1.0F + tanhf(kGeluScale * (x + kGeluCubic * x * x * x)));
  } else if constexpr (kAct == Activation::kRelu) {
    return fmaxf(x, 0.0F);
  } else if constexpr (kAct == Activation::kRelu2) {
    return fmaxf(x, 0.0F) * fmaxf(x, 0.0F);
  } else if constexpr (kAct == Activation::kQuickGelu) {
    return x * sigmoid(kQuickGelu * x);
  } else {
    return x * sigmoid(x);
  }
}

template <Activation kAct>
__device__ inline float slope_of(float x) {
  if constexpr (kAct == Activation::kGelu) {
    return 0.5F * (1.0F + erff(x * kRootHalf)) + x * __expf(-0.5F * x * x) * (0.5F * kGeluScale);
  } else if constexpr (kAct == Activation::kGeluTanh) {
    const float t = tanhf(kGeluScale * (x + kGeluCubic * x * x * x));
    const float inner = kGeluScale * (1.0F + 3.0F * kGeluCubic * x * x);
    return 0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * inner;
  } else if constexpr (kAct == Activation::kRelu) {
    return x > 0.0F ? 1.0F : 0.0F;
  } else if constexpr (kAct == Activation::kRelu2) {
    return 2.0F * fmaxf(x, 0.0F);
  } else if constexpr (kAct == Activation::kQuickGelu) {
    const float s = sigmoid(kQuickGelu * x);
    return s * (1.0F + kQuickGelu * x * (1.0F - s));
  } else {
    const float s = sigmoid(x);
    return s + x * s * (1.0F - s);
  }
}

// Calls `launch` with the activation as a constant.
template <typename Launch>
void with_activation(Activation act, Launch launch) {
  switch (act) {
    case Activation::kPlain:
    case Activation::kSilu:
      return launch(std::integral_constant<Activation, Activation::kSilu>());
    case Activation::kGelu:
      return launch(std::integral_constant<Activation, Activation::kGelu>());
    case Activation::kGeluTanh:
      return launch(std::integral_constant<Activation, Activation::kGeluTanh>());
    case Activation::kRelu:
      return launch(std::integral_constant<Activation, Activation::kRelu>());
    case Activation::kRelu2:
      return launch(std::integral_constant<Activation, Activation::kRelu2>());
    case Activation::kQuickGelu:
      return launch(std::integral_constant<Activation, Activation::kQuickGelu>());
  }
}

// grid.y is the row, so that no thread divides.
template <Activation kAct>
__global__ void swiglu_forward_kernel(const Bf16* gate_up, Bf16* y, std::int64_t inner) {
  const std::int64_t j = global_thread() * kVector;
  const std::int64_t row = blockIdx.y;
  if (j >= inner) {
    return;
  }
  float gate[kVector];
  float up[kVector];
  load8(gate_up + row * 2 * inner + j, gate);
  load8(gate_up + row * 2 * inner + inner + j, up);
  for (int i = 0; i < kVector; ++i) {
    up[i] *= activate<kAct>(gate[i]);
  }
  store8(y + row * inner + j, up);
}

template <Activation kAct>
__global__ void swiglu_backward_kernel(const Bf16* dy, const Bf16* gate_up, Bf16* dgate_up,
                                       std::int64_t inner) {
  const std::int64_t j = global_thread() * kVector;
  const std::int64_t row = blockIdx.y;
  if (j >= inner) {
    return;
  }
  float gradient[kVector];
  float gate[kVector];
  float up[kVector];
  load8(dy + row * inner + j, gradient);
  load8(gate_up + row * 2 * inner + j, gate);
  load8(gate_up + row * 2 * inner + inner + j, up);
  for (int i = 0; i < kVector; ++i) {
    const float dgate = gradient[i] * up[i] * slope_of<kAct>(gate[i]);
    up[i] = gradient[i] * activate<kAct>(gate[i]);
    gate[i] = dgate;
  }
  store8(dgate_up + row * 2 * inner + j, gate);
  store8(dgate_up + row * 2 * inner + inner + j, up);
}

// A thread takes eight elements; the last one what is left of them.
template <Activation kAct>
__global__ void gelu_forward_kernel(const Bf16* x, Bf16* y, std::int64_t count) {
  const std::int64_t j = global_thread() * kVector;
  if (j + kVector <= count) {
    float values[kVector];
    load8(x + j, values);
    for (float& value : values) {
      value = activate<kAct>(value);
    }
    store8(y + j, values);
    return;
  }
  for (std::int64_t i = j; i < count; ++i) {
    y[i] = __float2bfloat16(activate<kAct>(__bfloat162float(x[i])));
  }
}

template <Activation kAct>
__global__ void gelu_backward_kernel(const Bf16* dy, const Bf16* x, Bf16* dx, std::int64_t count) {
  const std::int64_t j = global_thread() * kVector;
  if (j + kVector <= count) {
    float values[kVector];
    float gradients[kVector];
    load8(x + j, values);
    load8(dy + j, gradients);
    for (int i = 0; i < kVector; ++i) {
      values[i] = gradients[i] * slope_of<kAct>(values[i]);
    }
    store8(dx + j, values);
    return;
  }
  for (std::int64_t i = j; i < count; ++i) {
    dx[i] = __float2bfloat16(__bfloat162float(dy[i]) * slope_of<kAct>(__bfloat162float(x[i])));
  }
}

// A thread takes eight elements; the last one what is left of them.
__global__ void scale_kernel(const Bf16* x, Bf16* y, std::int64_t count, float factor) {
  const std::int64_t j = global_thread() * kVector;
  if (j + kVector <= count) {
    float values[kVector];
    load8(x + j, values);
    for (float& value : values) {
      value *= factor;
    }
    store8(y + j, values);
    return;
  }
  for (std::int64_t i = j; i < count; ++i) {
    y[i] = __float2bfloat16(factor * __bfloat162float(x[i]));
  }
}

// Whole vectors of a row; columns that are no multiple of eight go one by one.
__global__ void bias_vector_kernel(Bf16* y, const Bf16* bias, std::int64_t columns) {
  const std::int64_t j = global_thread() * kVector;
  if (j >= columns) {
    return;
  }
  Bf16* row = y + static_cast<std::int64_t>(blockIdx.y) * columns;
  float values[kVector];
  float added[kVector];
  load8(row + j, values);
  load8(bias + j, added);
  for (int i = 0; i < kVector; ++i) {
    values[i] += added[i];
  }
  store8(row + j, values);
}

__global__ void bias_forward_kernel(Bf16* y, const Bf16* bias, std::int64_t columns) {
  const std::int64_t j = global_thread();
  if (j < columns) {
    Bf16& value = y[static_cast<std::int64_t>(blockIdx.y) * columns + j];
    value = __float2bfloat16(__bfloat162float(value) + __bfloat162float(bias[j]));
  }
}

constexpr int kBiasParts = 128;

__global__ void bias_partial_kernel(const Bf16* dy, float* partial, std::int64_t rows,
                                    std::int64_t columns) {
  const std::int64_t j = global_thread();
  if (j >= columns) {
    return;
  }
  float sum = 0.0F;
  for (std::int64_t row = blockIdx.y; row < rows; row += kBiasParts) {
    sum += __bfloat162float(dy[row * columns + j]);
  }
  partial[static_cast<std::int64_t>(blockIdx.y) * columns + j] = sum;
}

__global__ void bias_partial_vector_kernel(const Bf16* dy, float* partial, std::int64_t rows,
                                           std::int64_t columns) {
  const std::int64_t j = global_thread() * kVector;
  if (j >= columns) {
    return;
  }
  float sums[kVector] = {};
  float values[kVector];
  for (std::int64_t row = blockIdx.y; row < rows; row += kBiasParts) {
    load8(dy + row * columns + j, values);
    for (int i = 0; i < kVector; ++i) {
      sums[i] += values[i];
    }
  }
  for (int i = 0; i < kVector; ++i) {
    partial[static_cast<std::int64_t>(blockIdx.y) * columns + j + i] = sums[i];
  }
}

__global__ void bias_total_kernel(const float* partial, float* dbias, std::int64_t columns,
                                  bool accumulate) {
  const std::int64_t j = global_thread();
  if (j >= columns) {
    return;
  }
  float sum = accumulate ? dbias[j] : 0.0F;
  for (int part = 0; part < kBiasParts; ++part) {
    sum += partial[part * columns + j];
  }
  dbias[j] = sum;
}

__device__ inline float to_float(float value) {
  return value;
}
__device__ inline float to_float(Bf16 value) {
  return __bfloat162float(value);
}
__device__ inline void assign(float& target, float value) {
  target = value;
}
__device__ inline void assign(Bf16& target, float value) {
  target = __float2bfloat16(value);
}

// Neighbouring threads take neighbouring elements.
template <typename Y, typename X>
__global__ void add_kernel(Y* y, const X* x, std::int64_t count) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t j = global_thread(); j < count; j += stride) {
    assign(y[j], to_float(y[j]) + to_float(x[j]));
  }
}

__global__ void add_float_kernel(float* y, const float* x, std::int64_t vectors) {
  const std::int64_t i = global_thread();
  if (i >= vectors) {
    return;
  }
  float4 sum = reinterpret_cast<float4*>(y)[i];
  const float4 more = reinterpret_cast<const float4*>(x)[i];
  sum.x += more.x;
  sum.y += more.y;
  sum.z += more.z;
  sum.w += more.w;
  reinterpret_cast<float4*>(y)[i] = sum;
}

__global__ void add_bf16_kernel(Bf16* y, const Bf16* x, std::int64_t vectors) {
  const std::int64_t i = global_thread();
  if (i >= vectors) {
    return;
  }
  float a[kVector];
  float b[kVector];
  load8(y + i * kVector, a);
  load8(x + i * kVector, b);
  for (int k = 0; k < kVector; ++k) {
    a[k] += b[k];
  }
  store8(y + i * kVector, a);
}

template <typename X, typename Y>
__global__ void cast_kernel(const X* x, Y* y, std::int64_t count) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t j = global_thread(); j < count; j += stride) {
    assign(y[j], to_float(x[j]));
  }
}

// The cast of parameters before they are gathered: eight elements a thread.
__global__ void cast_to_bf16_kernel(const float* x, Bf16* y, std::int64_t vectors) {
  const std::int64_t i = global_thread();
  if (i >= vectors) {
    return;
  }
  const float4 first = reinterpret_cast<const float4*>(x)[2 * i];
  const float4 second = reinterpret_cast<const float4*>(x)[2 * i + 1];
  const float values[kVector] = {first.x,  first.y,  first.z,  first.w,
                                 second.x, second.y, second.z, second.w};
  store8(y + i * kVector, values);
}

bool aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

dim3 row_grid(std::int64_t items, std::int64_t rows) {
  return {blocks_for(items, kThreads), static_cast<unsigned int>(rows)};
}

constexpr std::int64_t kRowLimit = 65535;  // of grid.y

// Runs `launch(first_row, rows)` over at most kRowLimit rows at a time.
template <typename Launch>
void over_rows(std::int64_t rows, Launch launch) {
  for (std::int64_t first = 0; first < rows; first += kRowLimit) {
    launch(first, rows - first < kRowLimit ? rows - first : kRowLimit);
  }
}

}  // namespace

void swiglu_forward(cudaStream_t stream, const Bf16* gate_up, Bf16* y, std::int64_t rows,
                    std::int64_t inner, Activation act) {
  with_activation(act, [&](auto chosen) {
    over_rows(rows, [&](std::int64_t first, std::int64_t count) {
      swiglu_forward_kernel<chosen.value>
          <<<row_grid(inner / kVector, count), kThreads, 0, stream>>>(gate_up + first * 2 * inner,
                                                                      y + first * inner, inner);
    });
  });
}

void swiglu_backward(cudaStream_t stream, const Bf16* dy, const Bf16* gate_up, Bf16* dgate_up,
                     std::int64_t rows, std::int64_t inner, Activation act) {
  with_activation(act, [&](auto chosen) {
    over_rows(rows, [&](std::int64_t first, std::int64_t count) {
      swiglu_backward_kernel<chosen.value>
          <<<row_grid(inner / kVector, count), kThreads, 0, stream>>>(
              dy + first * inner, gate_up + first * 2 * inner, dgate_up + first * 2 * inner, inner);
    });
  });
}

void gelu_forward(cudaStream_t stream, const Bf16* x, Bf16* y, std::int64_t count, Activation act) {
  with_activation(act, [&](auto chosen) {
    gelu_forward_kernel<chosen.value>
        <<<blocks_for(count, kThreads * kVector), kThreads, 0, stream>>>(x, y, count);
  });
}

void gelu_backward(cudaStream_t stream, const Bf16* dy, const Bf16* x, Bf16* dx, std::int64_t count,
                   Activation act) {
  with_activation(act, [&](auto chosen) {
    gelu_backward_kernel<chosen.value>
        <<<blocks_for(count, kThreads * kVector), kThreads, 0, stream>>>(dy, x, dx, count);
  });
}

void scale(cudaStream_t stream, const Bf16* x, Bf16* y, std::int64_t count, float factor) {
  scale_kernel<<<blocks_for(count, kThreads * kVector), kThreads, 0, stream>>>(x, y, count, factor);
}

void bias_forward(cudaStream_t stream, Bf16* y, const Bf16* bias, std::int64_t rows,
                  std::int64_t columns) {
  over_rows(rows, [&](std::int64_t first, std::int64_t count) {
    if (columns % kVector == 0 && aligned(y) && aligned(bias)) {
      bias_vector_kernel<<<row_grid(columns / kVector, count), kThreads, 0, stream>>>(
          y + first * columns, bias, columns);
      return;
    }
    bias_forward_kernel<<<row_grid(columns, count), kThreads, 0, stream>>>(y + first * columns,
                                                                           bias, columns);
  });
}

void bias_backward(cudaStream_t stream, const Bf16* dy, float* dbias, std::int64_t rows,
                   std::int64_t columns, bool accumulate, Scratch scratch) {
  if (columns % kVector == 0 && aligned(dy)) {
    bias_partial_vector_kernel<<<row_grid(columns / kVector, kBiasParts), kThreads, 0, stream>>>(
        dy, scratch.data, rows, columns);
  } else {
    bias_partial_kernel<<<row_grid(columns, kBiasParts), kThreads, 0, stream>>>(dy, scratch.data,
                                                                                rows, columns);
  }
  bias_total_kernel<<<blocks_for(columns, kThreads), kThreads, 0, stream>>>(scratch.data, dbias,
                                                                            columns, accumulate);
}

template <typename Y, typename X>
void add(cudaStream_t stream, Y* y, const X* x, std::int64_t count) {
  add_kernel<<<blocks_for(count, kThreads * kVector), kThreads, 0, stream>>>(y, x, count);
}
template void add(cudaStream_t, float*, const Bf16*, std::int64_t);
template void add(cudaStream_t, Bf16*, const float*, std::int64_t);
template <>
void add(cudaStream_t stream, float* y, const float* x, std::int64_t count) {
  constexpr std::int64_t kFloats = 4;
  std::int64_t done = 0;
  if (aligned(y) && aligned(x) && count >= kFloats) {
    const std::int64_t vectors = count / kFloats;
    add_float_kernel<<<blocks_for(vectors, kThreads), kThreads, 0, stream>>>(y, x, vectors);
    done = vectors * kFloats;
  }
  if (done < count) {
    add_kernel<<<blocks_for(count - done, kThreads * kVector), kThreads, 0, stream>>>(
        y + done, x + done, count - done);
  }
}
template <>
void add(cudaStream_t stream, Bf16* y, const Bf16* x, std::int64_t count) {
  const std::int64_t vectors = count / kVector;
  if (vectors > 0) {
    add_bf16_kernel<<<blocks_for(vectors, kThreads), kThreads, 0, stream>>>(y, x, vectors);
  }
  if (count % kVector != 0) {
    add_kernel<<<1, 1, 0, stream>>>(y + vectors * kVector, x + vectors * kVector, count % kVector);
  }
}

constexpr std::int64_t kCastItemsPerThread = 8;

template <>
void cast(cudaStream_t stream, const float* x, Bf16* y, std::int64_t count) {
  std::int64_t done = 0;
  if (aligned(x) && aligned(y)) {
    const std::int64_t vectors = count / kVector;
    done = vectors * kVector;
    if (vectors > 0) {
      cast_to_bf16_kernel<<<blocks_for(vectors, kThreads), kThreads, 0, stream>>>(x, y, vectors);
    }
  }
  if (done < count) {
    cast_kernel<<<blocks_for(count - done, kThreads * kCastItemsPerThread), kThreads, 0, stream>>>(
        x + done, y + done, count - done);
  }
}

template <typename X, typename Y>
void cast(cudaStream_t stream, const X* x, Y* y, std::int64_t count) {
  cast_kernel<<<blocks_for(count, kThreads * kCastItemsPerThread), kThreads, 0, stream>>>(x, y,
                                                                                          count);
}
template void cast(cudaStream_t, const Bf16*, float*, std::int64_t);
template void cast(cudaStream_t, const float*, float*, std::int64_t);
template void cast(cudaStream_t, const Bf16*, Bf16*, std::int64_t);

}  // namespace trireme::runtime::cuda
