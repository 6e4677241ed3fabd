#include "runtime/cpu/elementwise.h"

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
void rotary(const RotaryShape& s, T* x, bool backward) {
  const std::int64_t half = s.head_dim / 2;
  for (std::int64_t row = 0; row < s.rows; ++row) {
    const double position = static_cast<double>(s.first_position + position_of(s, row));
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = position * std::pow(s.theta, -2.0 * static_cast<double>(i) /
                                                            static_cast<double>(s.head_dim));
      const auto cosine = static_cast<T>(std::cos(angle));
      const auto sine = static_cast<T>(backward ? -std::sin(angle) : std::sin(angle));
      for (std::int64_t head = 0; head < s.heads; ++head) {
        T* pair = x + row * s.stride + head * s.head_dim + i;
        const T first = pair[0];
        const T second = pair[half];
        pair[0] = first * cosine - second * sine;
        pair[half] = second * cosine + first * sine;
      }
    }
  }
}

template <typename T>
void swiglu_forward(std::int64_t rows, std::int64_t width, const T* x, T* y) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* gate = x + row * 2 * width;
    const T* up = gate + width;
    for (std::int64_t i = 0; i < width; ++i) {
      y[row * width + i] = gate[i] / (T(1) + std::exp(-gate[i])) * up[i];
    }
  }
}

template <typename T>
void swiglu_backward(std::int64_t rows, std::int64_t width, const T* x, const T* dy, T* dx) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* gate = x + row * 2 * width;
    const T* up = gate + width;
    const T* grad = dy + row * width;
    T* dgate = dx + row * 2 * width;
    T* dup = dgate + width;
    for (std::int64_t i = 0; i < width; ++i) {
      const T sigmoid = T(1) / (T(1) + std::exp(-gate[i]));
      const T silu = gate[i] * sigmoid;
      dgate[i] = grad[i] * up[i] * (sigmoid + silu * (T(1) - sigmoid));
      dup[i] = grad[i] * silu;
    }
  }
}

template <typename T>
void gelu_forward(std::int64_t count, const T* x, T* y) {
  const T root = std::sqrt(T(2) / std::numbers::pi_v<T>);
  for (std::int64_t i = 0; i < count; ++i) {
    const T inner = root * (x[i] + T(0.044715) * x[i] * x[i] * x[i]);
    y[i] = T(0.5) * x[i] * (T(1) + std::tanh(inner));
  }
}

template <typename T>
void gelu_backward(std::int64_t count, const T* x, const T* dy, T* dx) {
  const T root = std::sqrt(T(2) / std::numbers::pi_v<T>);
  for (std::int64_t i = 0; i < count; ++i) {
    const T t = std::tanh(root * (x[i] + T(0.044715) * x[i] * x[i] * x[i]));
    const T slope = root * (T(1) + T(3 * 0.044715) * x[i] * x[i]);
    dx[i] = dy[i] * (T(0.5) * (T(1) + t) + T(0.5) * x[i] * (T(1) - t * t) * slope);
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
      y[row * s.width + i] = here ? table[index * s.width + i] : T(0);
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
      dtable[index * s.width + i] += dy[row * s.width + i];
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

template void rotary<float>(const RotaryShape&, float*, bool);
template void swiglu_forward<float>(std::int64_t, std::int64_t, const float*, float*);
template void swiglu_backward<float>(std::int64_t, std::int64_t, const float*, const float*,
                                     float*);
template void gelu_forward<float>(std::int64_t, const float*, float*);
template void gelu_backward<float>(std::int64_t, const float*, const float*, float*);
template void add_bias<float>(std::int64_t, std::int64_t, const float*, float*);
template void add_column_sums<float>(std::int64_t, std::int64_t, const float*, float*);
template void add<float>(std::int64_t, const float*, const float*, float*);
template void embedding_forward<float>(const EmbeddingShape&, const std::int32_t*, const float*,
                                       float*);
template void embedding_backward<float>(const EmbeddingShape&, const std::int32_t*, const float*,
                                        float*);
template void position_forward<float>(const PositionShape&, const float*, float*);
template void position_backward<float>(const PositionShape&, const float*, float*);
template void rotary<double>(const RotaryShape&, double*, bool);
template void swiglu_forward<double>(std::int64_t, std::int64_t, const double*, double*);
template void swiglu_backward<double>(std::int64_t, std::int64_t, const double*, const double*,
                                      double*);
template void gelu_forward<double>(std::int64_t, const double*, double*);
template void gelu_backward<double>(std::int64_t, const double*, const double*, double*);
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
