#include "runtime/cpu/matmul.h"

#include <Eigen/Core>

namespace trireme::runtime::cpu {
namespace {
template <typename T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using ConstMap = Eigen::Map<const RowMajor<T>>;

template <typename Target, typename Product>
void assign(Target& target, const Product& product, bool accumulate) {
  if (accumulate) {
    target.noalias() += product;
  } else {
    target.noalias() = product;
  }
}
}  // namespace

template <typename T>
void matmul(const MatmulShape& s, const T* a, const T* b, T* c, bool accumulate) {
  Eigen::Map<RowMajor<T>> out(c, s.m, s.n);
  const ConstMap<T> lhs(a, s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k);
  const ConstMap<T> rhs(b, s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n);
  if (s.transpose_a && s.transpose_b) {
    assign(out, lhs.transpose() * rhs.transpose(), accumulate);
  } else if (s.transpose_a) {
    assign(out, lhs.transpose() * rhs, accumulate);
  } else if (s.transpose_b) {
    assign(out, lhs * rhs.transpose(), accumulate);
  } else {
    assign(out, lhs * rhs, accumulate);
  }
}

template void matmul<float>(const MatmulShape&, const float*, const float*, float*, bool);
template void matmul<double>(const MatmulShape&, const double*, const double*, double*, bool);

}  // namespace trireme::runtime::cpu
