#include "runtime/cpu/elementwise.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/program.h"

namespace trireme::runtime::cpu {
namespace {

// Of a token of this rank in its sequence.
template <typename Shape>
std::int64_t position_of(const Shape& s, std::int64_t token) {
  return context_position(token % (s.length / s.context_ranks), s.length, s.context_ranks,
                          s.context_place);
}

}  // namespace

template <typename T>
void rotary(const RotaryShape& s, const RotaryTable& table, T* x, bool backward) {
  const auto pairs = static_cast<std::int64_t>(table.frequencies.size());
  for (std::int64_t row = 0; row < s.rows; ++row) {
    const double position = static_cast<double>(s.first_position + position_of(s, row));
    for (std::int64_t i = 0; i < pairs; ++i) {
      const double angle = position * table.frequencies[static_cast<std::size_t>(i)];
      const auto cosine = static_cast<T>(table.scale * std::cos(angle));
      const auto sine =
          static_cast<T>(table.scale * (backward ? -std::sin(angle) : std::sin(angle)));
      for (std::int64_t head = 0; head < s.heads; ++head) {
        T* from = x + row * s.stride + head * s.head_stride;
        T& low = from[table.neighbours ? 2 * i : i];
        T& high = from[table.neighbours ? 2 * i + 1 : i + pairs];
        const T first = low;
        const T second = high;
        low = first * cosine - second * sine;
        high = second * cosine + first * sine;
      }
    }
  }
}

template <typename T>
void latent_heads_forward(const LatentShape& s, const RotaryShape& positions,
                          const RotaryTable* turned, const T* q, const T* kv, const T* key,
                          T* qkv) {
  const std::int64_t width = s.heads * (2 * s.qk() + s.value);
  for (std::int64_t row = 0; row < positions.rows; ++row) {
    T* k = qkv + row * width + s.heads * s.qk();
    T* v = k + s.heads * s.qk();
    std::copy_n(q + row * s.heads * s.qk(), s.heads * s.qk(), qkv + row * width);
    for (std::int64_t head = 0; head < s.heads; ++head) {
      const T* from = kv + (row * s.heads + head) * (s.nope + s.value);
      std::copy_n(from, s.nope, k + head * s.qk());
      std::copy_n(key + row * s.rope, s.rope, k + head * s.qk() + s.nope);
      std::copy_n(from + s.nope, s.value, v + head * s.value);
    }
  }
  if (turned != nullptr) {  // q and k heads follow each other
    RotaryShape parts = positions;
    parts.heads = 2 * s.heads;
    parts.head_stride = s.qk();
    parts.stride = width;
    rotary<T>(parts, *turned, qkv + s.nope, false);
  }
}

template <typename T>
void latent_heads_backward(const LatentShape& s, const RotaryShape& positions,
                           const RotaryTable* turned, const T* dqkv, T* dq, T* dkv, T* dkey) {
  const std::int64_t width = s.heads * (2 * s.qk() + s.value);
  std::fill_n(dkey, positions.rows * s.rope, T(0));
  for (std::int64_t row = 0; row < positions.rows; ++row) {
    const T* k = dqkv + row * width + s.heads * s.qk();
    const T* v = k + s.heads * s.qk();
    std::copy_n(dqkv + row * width, s.heads * s.qk(), dq + row * s.heads * s.qk());
    for (std::int64_t head = 0; head < s.heads; ++head) {
      T* to = dkv + (row * s.heads + head) * (s.nope + s.value);
      std::copy_n(k + head * s.qk(), s.nope, to);
      std::copy_n(v + head * s.value, s.value, to + s.nope);
      for (std::int64_t i = 0; i < s.rope; ++i) {
        dkey[row * s.rope + i] += k[head * s.qk() + s.nope + i];
      }
    }
  }
  if (turned != nullptr) {
    RotaryShape parts = positions;
    parts.heads = s.heads;
    parts.head_stride = s.qk();
    parts.stride = s.heads * s.qk();
    rotary<T>(parts, *turned, dq + s.nope, true);
    parts.heads = 1;
    parts.stride = s.rope;
    rotary<T>(parts, *turned, dkey, true);
  }
}

namespace {

template <typename T>
T gelu_tanh_inner(T x) {
  return std::sqrt(T(2) / std::numbers::pi_v<T>) * (x + T(0.044715) * x * x * x);
}

template <typename T>
T activate(Activation act, T x) {
  switch (act) {
    case Activation::kPlain:
    case Activation::kSilu:
      return x / (T(1) + std::exp(-x));
    case Activation::kGelu:
      return T(0.5) * x * (T(1) + std::erf(x / std::numbers::sqrt2_v<T>));
    case Activation::kGeluTanh:
      return T(0.5) * x * (T(1) + std::tanh(gelu_tanh_inner(x)));
    case Activation::kRelu:
      return std::max(x, T(0));
    case Activation::kRelu2:
      return std::max(x, T(0)) * std::max(x, T(0));
    case Activation::kQuickGelu:
      return x / (T(1) + std::exp(T(-1.702) * x));
  }
  return T(0);
}

// The derivative of `activate`.
template <typename T>
T slope_of(Activation act, T x) {
  switch (act) {
    case Activation::kPlain:
    case Activation::kSilu: {
      const T sigmoid = T(1) / (T(1) + std::exp(-x));
      return sigmoid * (T(1) + x * (T(1) - sigmoid));
    }
    case Activation::kGelu:
      return T(0.5) * (T(1) + std::erf(x / std::numbers::sqrt2_v<T>)) +
             x * std::exp(T(-0.5) * x * x) / std::sqrt(T(2) * std::numbers::pi_v<T>);
    case Activation::kGeluTanh: {
      const T t = std::tanh(gelu_tanh_inner(x));
      const T inner = std::sqrt(T(2) / std::numbers::pi_v<T>) * (T(1) + T(3 * 0.044715) * x * x);
      return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * inner;
    }
    case Activation::kRelu:
      return x > T(0) ? T(1) : T(0);
    case Activation::kRelu2:
      return T(2) * std::max(x, T(0));
    case Activation::kQuickGelu: {
      const T sigmoid = T(1) / (T(1) + std::exp(T(-1.702) * x));
      return sigmoid * (T(1) + T(1.702) * x * (T(1) - sigmoid));
    }
  }
  return T(0);
}

}  // namespace

template <typename T>
void swiglu_forward(std::int64_t rows, std::int64_t width, Activation act, const T* x, T* y) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* gate = x + row * 2 * width;
    const T* up = gate + width;
    for (std::int64_t i = 0; i < width; ++i) {
      y[row * width + i] = activate(act, gate[i]) * up[i];
    }
  }
}

template <typename T>
void swiglu_backward(std::int64_t rows, std::int64_t width, Activation act, const T* x, const T* dy,
                     T* dx) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* gate = x + row * 2 * width;
    const T* up = gate + width;
    const T* grad = dy + row * width;
    T* dgate = dx + row * 2 * width;
    T* dup = dgate + width;
    for (std::int64_t i = 0; i < width; ++i) {
      dgate[i] = grad[i] * up[i] * slope_of(act, gate[i]);
      dup[i] = grad[i] * activate(act, gate[i]);
    }
  }
}

template <typename T>
void gelu_forward(std::int64_t count, Activation act, const T* x, T* y) {
  act = act == Activation::kPlain ? Activation::kGeluTanh : act;
  for (std::int64_t i = 0; i < count; ++i) {
    y[i] = activate(act, x[i]);
  }
}

template <typename T>
void gelu_backward(std::int64_t count, Activation act, const T* x, const T* dy, T* dx) {
  act = act == Activation::kPlain ? Activation::kGeluTanh : act;
  for (std::int64_t i = 0; i < count; ++i) {
    dx[i] = dy[i] * slope_of(act, x[i]);
  }
}

template <typename T>
void add_bias(std::int64_t rows, std::int64_t width, const T* bias, T* x) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < width; ++i) {
      x[row * width + i] += bias[i];
    }
  }
}

template <typename T>
void add_column_sums(std::int64_t rows, std::int64_t width, const T* dy, T* dbias) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < width; ++i) {
      dbias[i] += dy[row * width + i];
    }
  }
}

template <typename T>
void scale(std::int64_t count, T factor, const T* x, T* y) {
  for (std::int64_t i = 0; i < count; ++i) {
    y[i] = factor * x[i];
  }
}

template <typename T>
void add(std::int64_t count, const T* a, const T* b, T* y) {
  for (std::int64_t i = 0; i < count; ++i) {
    y[i] = a[i] + b[i];
  }
}

template <typename T>
void embedding_forward(const EmbeddingShape& s, const std::int32_t* tokens, const T* table, T* y) {
  for (std::int64_t row = 0; row < s.rows; ++row) {
    const std::int64_t index = tokens[row] - s.first_row;
    const bool here = index >= 0 && index < s.table_rows;
    for (std::int64_t i = 0; i < s.width; ++i) {
      y[row * s.width + i] =
          here ? static_cast<T>(s.multiplier) * table[index * s.width + i] : T(0);
    }
  }
}

template <typename T>
void embedding_backward(const EmbeddingShape& s, const std::int32_t* tokens, const T* dy,
                        T* dtable) {
  for (std::int64_t row = 0; row < s.rows; ++row) {
    const std::int64_t index = tokens[row] - s.first_row;
    if (index < 0 || index >= s.table_rows) {
      continue;
    }
    for (std::int64_t i = 0; i < s.width; ++i) {
      dtable[index * s.width + i] += static_cast<T>(s.multiplier) * dy[row * s.width + i];
    }
  }
}

template <typename T>
void position_forward(const PositionShape& s, const T* table, T* y) {
  for (std::int64_t row = 0; row < s.rows; ++row) {
    const T* line = table + position_of(s, s.first_row + row) * s.width;
    for (std::int64_t i = 0; i < s.width; ++i) {
      y[row * s.width + i] += line[i];
    }
  }
}

template <typename T>
void position_backward(const PositionShape& s, const T* dy, T* dtable) {
  for (std::int64_t row = 0; row < s.rows; ++row) {
    T* line = dtable + position_of(s, s.first_row + row) * s.width;
    for (std::int64_t i = 0; i < s.width; ++i) {
      line[i] += dy[row * s.width + i];
    }
  }
}

template void rotary<float>(const RotaryShape&, const RotaryTable&, float*, bool);
template void latent_heads_forward<float>(const LatentShape&, const RotaryShape&,
                                          const RotaryTable*, const float*, const float*,
                                          const float*, float*);
template void latent_heads_backward<float>(const LatentShape&, const RotaryShape&,
                                           const RotaryTable*, const float*, float*, float*,
                                           float*);
template void scale<float>(std::int64_t, float, const float*, float*);
template void swiglu_forward<float>(std::int64_t, std::int64_t, Activation, const float*, float*);
template void swiglu_backward<float>(std::int64_t, std::int64_t, Activation, const float*,
                                     const float*, float*);
template void gelu_forward<float>(std::int64_t, Activation, const float*, float*);
template void gelu_backward<float>(std::int64_t, Activation, const float*, const float*, float*);
template void add_bias<float>(std::int64_t, std::int64_t, const float*, float*);
template void add_column_sums<float>(std::int64_t, std::int64_t, const float*, float*);
template void add<float>(std::int64_t, const float*, const float*, float*);
template void embedding_forward<float>(const EmbeddingShape&, const std::int32_t*, const float*,
                                       float*);
template void embedding_backward<float>(const EmbeddingShape&, const std::int32_t*, const float*,
                                        float*);
template void position_forward<float>(const PositionShape&, const float*, float*);
template void position_backward<float>(const PositionShape&, const float*, float*);
template void rotary<double>(const RotaryShape&, const RotaryTable&, double*, bool);
template void latent_heads_forward<double>(const LatentShape&, const RotaryShape&,
                                           const RotaryTable*, const double*, const double*,
                                           const double*, double*);
template void latent_heads_backward<double>(const LatentShape&, const RotaryShape&,
                                            const RotaryTable*, const double*, double*, double*,
                                            double*);
template void scale<double>(std::int64_t, double, const double*, double*);
template void swiglu_forward<double>(std::int64_t, std::int64_t, Activation, const double*,
                                     double*);
template void swiglu_backward<double>(std::int64_t, std::int64_t, Activation, const double*,
                                      const double*, double*);
template void gelu_forward<double>(std::int64_t, Activation, const double*, double*);
template void gelu_backward<double>(std::int64_t, Activation, const double*, const double*,
                                    double*);
template void add_bias<double>(std::int64_t, std::int64_t, const double*, double*);
template void add_column_sums<double>(std::int64_t, std::int64_t, const double*, double*);
template void add<double>(std::int64_t, const double*, const double*, double*);
template void embedding_forward<double>(const EmbeddingShape&, const std::int32_t*, const double*,
                                        double*);
template void embedding_backward<double>(const EmbeddingShape&, const std::int32_t*, const double*,
                                         double*);
template void position_forward<double>(const PositionShape&, const double*, double*);
template void position_backward<double>(const PositionShape&, const double*, double*);

}  // namespace trireme::runtime::cpu
