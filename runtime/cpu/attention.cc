#include "runtime/cpu/attention.h"

#include <Eigen/Core>
#include <cmath>
#include <limits>

namespace trireme::runtime::cpu {
namespace {
template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Stride = Eigen::OuterStride<>;

// The [length, dim] slice of one head of one sequence.
template <typename T>
auto slice(Rows<T> rows, std::int64_t first_token, std::int64_t length, std::int64_t head,
           std::int64_t dim) {
  using Plain = Matrix<std::remove_const_t<T>>;
  using Mapped = std::conditional_t<std::is_const_v<T>, const Plain, Plain>;
  return Eigen::Map<Mapped, 0, Stride>(rows.data + first_token * rows.stride + head * dim, length,
                                       dim, Stride(rows.stride));
}

bool visible(const AttentionShape& s, std::int64_t query, std::int64_t key) {
  const std::int64_t position = query + s.query_offset;
  if (s.causal && key > position) {
    return false;
  }
  return s.window == 0 || key > position - s.window;
}

template <typename T>
void cap(const AttentionShape& s, Matrix<T>& scores) {
  if (s.cap > 0) {
    const auto limit = static_cast<T>(s.cap);
    scores = (limit * (scores.array() / limit).tanh()).matrix();
  }
}

template <typename T>
void mask(const AttentionShape& s, Matrix<T>& scores) {
  for (std::int64_t i = 0; i < s.query_length; ++i) {
    for (std::int64_t j = 0; j < s.key_length; ++j) {
      if (!visible(s, i, j)) {
        scores(i, j) = -std::numeric_limits<T>::infinity();
      }
    }
  }
}
}  // namespace

template <typename T>
void attention_forward(const AttentionShape& s, Rows<const T> q, Rows<const T> k, Rows<const T> v,
                       Rows<T> output, T* log_sum_exp) {
  const std::int64_t queries_per_kv = s.heads / s.kv_heads;
  Matrix<T> scores(s.query_length, s.key_length);
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const auto qh = slice(q, b * s.query_length, s.query_length, h, s.qk_dim);
      const auto kh = slice(k, b * s.key_length, s.key_length, h / queries_per_kv, s.qk_dim);
      const auto vh = slice(v, b * s.key_length, s.key_length, h / queries_per_kv, s.v_dim);
      auto oh = slice(output, b * s.query_length, s.query_length, h, s.v_dim);
      scores.noalias() = static_cast<T>(s.scale) * (qh * kh.transpose());
      cap(s, scores);
      mask(s, scores);
      for (std::int64_t i = 0; i < s.query_length; ++i) {
        const T highest = scores.row(i).maxCoeff();
        const T lse = highest + std::log((scores.row(i).array() - highest).exp().sum());
        scores.row(i) = (scores.row(i).array() - lse).exp();
        log_sum_exp[(b * s.heads + h) * s.query_length + i] = lse;
      }
      oh.noalias() = scores * vh;
    }
  }
}

// dP = dO V^T, dS = P (dP - rowsum(dO O)); Dao et al. 2022, FlashAttention, appendix B.
template <typename T>
void attention_backward(const AttentionShape& s, Rows<const T> q, Rows<const T> k, Rows<const T> v,
                        Rows<const T> output, const T* log_sum_exp, Rows<const T> doutput,
                        Rows<T> dq, Rows<T> dk, Rows<T> dv) {
  const std::int64_t queries_per_kv = s.heads / s.kv_heads;
  const auto scale = static_cast<T>(s.scale);
  Matrix<T> p(s.query_length, s.key_length);
  Matrix<T> ds(s.query_length, s.key_length);
  Matrix<T> slope;  // of a capped score by the score
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const std::int64_t kv = h / queries_per_kv;
      const auto qh = slice(q, b * s.query_length, s.query_length, h, s.qk_dim);
      const auto kh = slice(k, b * s.key_length, s.key_length, kv, s.qk_dim);
      const auto vh = slice(v, b * s.key_length, s.key_length, kv, s.v_dim);
      const auto oh = slice(output, b * s.query_length, s.query_length, h, s.v_dim);
      const auto doh = slice(doutput, b * s.query_length, s.query_length, h, s.v_dim);
      p.noalias() = scale * (qh * kh.transpose());
      cap(s, p);
      slope = s.cap > 0 ? Matrix<T>((1 - (p.array() / static_cast<T>(s.cap)).square()).matrix())
                        : Matrix<T>();
      mask(s, p);
      ds.noalias() = doh * vh.transpose();
      for (std::int64_t i = 0; i < s.query_length; ++i) {
        p.row(i) = (p.row(i).array() - log_sum_exp[(b * s.heads + h) * s.query_length + i]).exp();
        const T delta = doh.row(i).dot(oh.row(i));
        ds.row(i) = p.row(i).array() * (ds.row(i).array() - delta) * scale;
        if (s.cap > 0) {
          ds.row(i).array() *= slope.row(i).array();
        }
      }
      auto dqh = slice(dq, b * s.query_length, s.query_length, h, s.qk_dim);
      auto dkh = slice(dk, b * s.key_length, s.key_length, kv, s.qk_dim);
      auto dvh = slice(dv, b * s.key_length, s.key_length, kv, s.v_dim);
      dqh.noalias() = ds * kh;
      if (h % queries_per_kv == 0) {
        dkh.noalias() = ds.transpose() * qh;
        dvh.noalias() = p.transpose() * doh;
      } else {
        dkh.noalias() += ds.transpose() * qh;
        dvh.noalias() += p.transpose() * doh;
      }
    }
  }
}

template void attention_forward<float>(const AttentionShape&, Rows<const float>, Rows<const float>,
                                       Rows<const float>, Rows<float>, float*);
template void attention_forward<double>(const AttentionShape&, Rows<const double>,
                                        Rows<const double>, Rows<const double>, Rows<double>,
                                        double*);
template void attention_backward<float>(const AttentionShape&, Rows<const float>, Rows<const float>,
                                        Rows<const float>, Rows<const float>, const float*,
                                        Rows<const float>, Rows<float>, Rows<float>, Rows<float>);
template void attention_backward<double>(const AttentionShape&, Rows<const double>,
                                         Rows<const double>, Rows<const double>, Rows<const double>,
                                         const double*, Rows<const double>, Rows<double>,
                                         Rows<double>, Rows<double>);

}  // namespace trireme::runtime::cpu
