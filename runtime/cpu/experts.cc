#include "runtime/cpu/experts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

namespace trireme::runtime::cpu {
namespace {

template <typename T>
T sigmoid(T x) {
  return T(1) / (T(1) + std::exp(-x));
}

// Scores of one token. The largest logit is taken off a softmax, which its sum does not see.
template <typename T>
void score(const RouteShape& s, const T* logits, std::vector<T>& scores) {
  const T largest = *std::max_element(logits, logits + s.experts);
  T sum = T(0);
  for (std::int64_t e = 0; e < s.experts; ++e) {
    scores[static_cast<std::size_t>(e)] =
        s.sigmoid ? sigmoid(logits[e]) : std::exp(logits[e] - largest);
    sum += scores[static_cast<std::size_t>(e)];
  }
  for (T& value : scores) {
    value = s.sigmoid ? value : value / sum;
  }
}

std::int64_t rows_of(const ArrivedShape& arrived, const std::int32_t* counts, std::int64_t expert) {
  std::int64_t rows = 0;
  for (std::int64_t sender = 0; sender < arrived.senders; ++sender) {
    rows += counts[sender * arrived.experts + expert];
  }
  return rows;
}

}  // namespace

namespace {

// Ranks of experts in groups that are not among the best sink to the bottom.
template <typename T>
void leave_best_groups(const RouteShape& s, std::vector<T>& ranks) {
  if (s.groups <= 1) {
    return;
  }
  const std::int64_t size = s.experts / s.groups;
  std::vector<T> values(static_cast<std::size_t>(s.groups));
  for (std::int64_t g = 0; g < s.groups; ++g) {
    std::vector<T> own(ranks.begin() + g * size, ranks.begin() + (g + 1) * size);
    std::sort(own.begin(), own.end(), std::greater<T>());
    values[static_cast<std::size_t>(g)] = own[0] + (s.groups_by_two && size > 1 ? own[1] : T(0));
  }
  std::vector<std::int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
  });
  for (std::size_t place = static_cast<std::size_t>(s.groups_chosen); place < order.size();
       ++place) {
    std::fill_n(ranks.begin() + order[place] * size, size, -std::numeric_limits<T>::infinity());
  }
}

}  // namespace

template <typename T>
void route_forward(const RouteShape& s, const T* logits, const T* bias, T* weights,
                   std::int32_t* experts) {
  std::vector<T> scores(static_cast<std::size_t>(s.experts));
  std::vector<T> ranks(scores.size());
  std::vector<std::int32_t> order(scores.size());
  for (std::int64_t token = 0; token < s.tokens; ++token) {
    score(s, logits + token * s.experts, scores);
    for (std::size_t e = 0; e < ranks.size(); ++e) {
      ranks[e] = scores[e] + (s.biased ? bias[e] : T(0));
    }
    leave_best_groups(s, ranks);
    const auto rank = [&](std::int32_t e) { return ranks[static_cast<std::size_t>(e)]; };
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + s.chosen, order.end(),
                      [&](std::int32_t a, std::int32_t b) {
                        return rank(a) != rank(b) ? rank(a) > rank(b) : a < b;
                      });
    T sum = T(0);
    for (std::int64_t j = 0; j < s.chosen; ++j) {
      sum += scores[static_cast<std::size_t>(order[static_cast<std::size_t>(j)])];
    }
    for (std::int64_t j = 0; j < s.chosen; ++j) {
      const std::int32_t expert = order[static_cast<std::size_t>(j)];
      experts[token * s.chosen + j] = expert;
      weights[token * s.chosen + j] = static_cast<T>(s.scale) *
                                      scores[static_cast<std::size_t>(expert)] /
                                      (s.normalises ? sum : T(1));
    }
  }
}

// With g = dw * w summed over the chosen, of w = scale * s / sum s: ds s = w dw - (w / scale) g,
// and of w = scale * s: ds s = w dw. A sigmoid's ds is s (1 - s) dlogit; a softmax's s (dlogit -
// the mean of dlogit under s), which takes nothing more out of normalised weights.
template <typename T>
void route_backward(const RouteShape& s, const T* dweights, const T* weights,
                    const std::int32_t* experts, const T* logits, T* dlogits) {
  std::vector<T> scores(static_cast<std::size_t>(s.experts));
  std::fill_n(dlogits, s.tokens * s.experts, T(0));
  for (std::int64_t token = 0; token < s.tokens; ++token) {
    const std::int64_t first = token * s.chosen;
    T sum = T(0);
    for (std::int64_t j = first; j < first + s.chosen; ++j) {
      sum += weights[j] * dweights[j];
    }
    T* row = dlogits + token * s.experts;
    if (!s.normalises && !s.sigmoid) {
      score(s, logits + token * s.experts, scores);
      for (std::int64_t e = 0; e < s.experts; ++e) {
        row[e] = -scores[static_cast<std::size_t>(e)] * sum;
      }
    }
    const T mean = s.normalises ? sum / static_cast<T>(s.scale) : T(0);
    for (std::int64_t j = first; j < first + s.chosen; ++j) {
      const T slope = s.sigmoid ? T(1) - sigmoid(logits[token * s.experts + experts[j]]) : T(1);
      row[experts[j]] += weights[j] * (dweights[j] - mean) * slope;
    }
  }
}

void expert_places(std::int64_t slots, std::int64_t experts, const std::int32_t* chosen,
                   std::int32_t* places, std::int32_t* counts) {
  std::fill_n(counts, experts, 0);
  for (std::int64_t i = 0; i < slots; ++i) {
    ++counts[chosen[i]];
  }
  std::vector<std::int32_t> next(static_cast<std::size_t>(experts), 0);
  std::exclusive_scan(counts, counts + experts, next.begin(), 0);
  for (std::int64_t i = 0; i < slots; ++i) {
    places[i] = next[static_cast<std::size_t>(chosen[i])]++;
  }
}

template <typename T>
void permute_rows(const RowsShape& s, const T* x, const std::int32_t* places, T* y) {
  for (std::int64_t slot = 0; slot < s.tokens * s.chosen; ++slot) {
    std::copy_n(x + slot / s.chosen * s.width, s.width, y + places[slot] * s.width);
  }
}

template <typename T>
void combine_rows(const RowsShape& s, const T* y, const std::int32_t* places, const T* weights,
                  T* x) {
  std::fill_n(x, s.tokens * s.width, T(0));
  for (std::int64_t slot = 0; slot < s.tokens * s.chosen; ++slot) {
    const T* from = y + places[slot] * s.width;
    T* to = x + slot / s.chosen * s.width;
    for (std::int64_t i = 0; i < s.width; ++i) {
      to[i] += weights == nullptr ? from[i] : weights[slot] * from[i];
    }
  }
}

template <typename T>
void combine_backward(const RowsShape& s, const T* dx, const T* y, const std::int32_t* places,
                      const T* weights, T* dy, T* dweights) {
  for (std::int64_t slot = 0; slot < s.tokens * s.chosen; ++slot) {
    const T* from = dx + slot / s.chosen * s.width;
    const T* row = y + places[slot] * s.width;
    T* to = dy + places[slot] * s.width;
    T sum = T(0);
    for (std::int64_t i = 0; i < s.width; ++i) {
      sum += from[i] * row[i];
      to[i] = weights[slot] * from[i];
    }
    dweights[slot] = sum;
  }
}

template <typename T>
void regroup_rows(const ArrivedShape& arrived, std::int64_t width, const std::int32_t* counts,
                  const T* x, T* y, bool inverse) {
  std::int64_t grouped = 0;
  for (std::int64_t expert = 0; expert < arrived.experts; ++expert) {
    for (std::int64_t sender = 0; sender < arrived.senders; ++sender) {
      const std::int64_t block = sender * arrived.experts + expert;
      const std::int64_t sent = std::accumulate(counts, counts + block, std::int64_t{0});
      const std::int64_t from = inverse ? grouped : sent;
      const std::int64_t to = inverse ? sent : grouped;
      std::copy_n(x + from * width, counts[block] * width, y + to * width);
      grouped += counts[block];
    }
  }
}

template <typename T>
void expert_matmul(const MatmulShape& s, const ArrivedShape& arrived, const std::int32_t* counts,
                   const T* a, const T* b, T* c, bool accumulate) {
  for (std::int64_t expert = 0; expert < arrived.experts; ++expert) {
    MatmulShape one = s;
    const std::int64_t rows = rows_of(arrived, counts, expert);
    (s.transpose_a ? one.k : one.m) = rows;
    matmul<T>(one, a, b, c, accumulate);
    a += rows * (s.transpose_a ? s.m : s.k);
    b += s.transpose_a ? rows * s.n : s.k * s.n;
    c += s.transpose_a ? s.m * s.n : rows * s.n;
  }
}

template void route_forward<float>(const RouteShape&, const float*, const float*, float*,
                                   std::int32_t*);
template void route_forward<double>(const RouteShape&, const double*, const double*, double*,
                                    std::int32_t*);
template void route_backward<float>(const RouteShape&, const float*, const float*,
                                    const std::int32_t*, const float*, float*);
template void route_backward<double>(const RouteShape&, const double*, const double*,
                                     const std::int32_t*, const double*, double*);
template void permute_rows<float>(const RowsShape&, const float*, const std::int32_t*, float*);
template void permute_rows<double>(const RowsShape&, const double*, const std::int32_t*, double*);
template void combine_rows<float>(const RowsShape&, const float*, const std::int32_t*, const float*,
                                  float*);
template void combine_rows<double>(const RowsShape&, const double*, const std::int32_t*,
                                   const double*, double*);
template void combine_backward<float>(const RowsShape&, const float*, const float*,
                                      const std::int32_t*, const float*, float*, float*);
template void combine_backward<double>(const RowsShape&, const double*, const double*,
                                       const std::int32_t*, const double*, double*, double*);
template void regroup_rows<float>(const ArrivedShape&, std::int64_t, const std::int32_t*,
                                  const float*, float*, bool);
template void regroup_rows<double>(const ArrivedShape&, std::int64_t, const std::int32_t*,
                                   const double*, double*, bool);
template void expert_matmul<float>(const MatmulShape&, const ArrivedShape&, const std::int32_t*,
                                   const float*, const float*, float*, bool);
template void expert_matmul<double>(const MatmulShape&, const ArrivedShape&, const std::int32_t*,
                                    const double*, const double*, double*, bool);

}  // namespace trireme::runtime::cpu
