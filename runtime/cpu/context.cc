#include "runtime/cpu/context.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/program.h"
#include "runtime/cpu/attention.h"

namespace trireme::runtime::cpu {
namespace {

// One of the two chunks of a sequence that a rank has, as attention over all keys of the sequence.
AttentionShape chunk_shape(const ContextShape& s, std::int64_t chunk) {
  const std::int64_t length = s.own() / 2;
  return {.batch = 1,
          .heads = s.heads,
          .kv_heads = s.kv_heads,
          .query_length = length,
          .key_length = s.sequence,
          .query_offset = context_position(chunk * length, s.sequence, s.ranks, s.place),
          .qk_dim = s.head_dim,
          .v_dim = s.v_dim,
          .window = s.window,
          .causal = true,
          .scale = s.scale};
}

// The statistics of a chunk lie between those of the other, head by head.
template <typename T>
T* statistics(const ContextShape& s, T* lse, std::int64_t sequence, std::int64_t head,
              std::int64_t chunk) {
  return lse + (sequence * s.heads + head) * s.own() + chunk * (s.own() / 2);
}

}  // namespace

template <typename T>
void keys_out(std::int64_t tokens, const ContextShape& s, const T* qkv, T* kv) {
  for (std::int64_t token = 0; token < tokens; ++token) {
    std::copy_n(qkv + token * s.qkv() + s.heads * s.head_dim, s.kv(), kv + token * s.kv());
  }
}

template <typename T>
void keys_in(std::int64_t tokens, const ContextShape& s, const T* dkv, T* dqkv) {
  for (std::int64_t token = 0; token < tokens; ++token) {
    T* to = dqkv + token * s.qkv() + s.heads * s.head_dim;
    for (std::int64_t i = 0; i < s.kv(); ++i) {
      to[i] += dkv[token * s.kv() + i];
    }
  }
}

template <typename T>
void rows_in_order(const ContextShape& s, std::int64_t width, const T* x, T* y, bool inverse) {
  for (std::int64_t rank = 0; rank < s.ranks; ++rank) {
    for (std::int64_t row = 0; row < s.batch * s.own(); ++row) {
      const std::int64_t brought = rank * s.batch * s.own() + row;
      const std::int64_t ordered =
          row / s.own() * s.sequence + context_position(row % s.own(), s.sequence, s.ranks, rank);
      std::copy_n(x + (inverse ? ordered : brought) * width, width,
                  y + (inverse ? brought : ordered) * width);
    }
  }
}

template <typename T>
void spread_heads(std::int64_t tokens, const ContextShape& s, const T* x, T* y, bool inverse) {
  const std::int64_t parts[] = {s.heads * s.head_dim, s.kv_heads * s.head_dim,
                                s.kv_heads * s.v_dim};
  const std::int64_t width = parts[0] + parts[1] + parts[2];
  const std::int64_t share = width / s.ranks;
  for (std::int64_t rank = 0; rank < s.ranks; ++rank) {
    for (std::int64_t token = 0; token < tokens; ++token) {
      std::int64_t row = token * width;
      std::int64_t block = (rank * tokens + token) * share;
      for (const std::int64_t part : parts) {
        const std::int64_t own = part / s.ranks;
        const std::int64_t at = row + rank * own;
        std::copy_n(x + (inverse ? block : at), own, y + (inverse ? at : block));
        row += part;
        block += own;
      }
    }
  }
}

template <typename T>
void context_attention_forward(const ContextShape& s, const T* qkv, const T* kv, T* y, T* lse) {
  const std::int64_t length = s.own() / 2;
  std::vector<T> part(static_cast<std::size_t>(s.heads * length));
  for (std::int64_t b = 0; b < s.batch; ++b) {
    const T* keys = kv + b * s.sequence * s.kv();
    for (std::int64_t chunk = 0; chunk < 2; ++chunk) {
      const std::int64_t row = b * s.own() + chunk * length;
      attention_forward<T>(chunk_shape(s, chunk), {qkv + row * s.qkv(), s.qkv()}, {keys, s.kv()},
                           {keys + s.kv() / 2, s.kv()},
                           {y + row * s.heads * s.head_dim, s.heads * s.head_dim}, part.data());
      for (std::int64_t head = 0; head < s.heads; ++head) {
        std::copy_n(part.data() + head * length, length, statistics(s, lse, b, head, chunk));
      }
    }
  }
}

template <typename T>
void context_attention_backward(const ContextShape& s, const T* dy, const T* qkv, const T* kv,
                                const T* y, const T* lse, T* dqkv, T* dkv) {
  const std::int64_t length = s.own() / 2;
  const std::int64_t width = s.heads * s.head_dim;
  std::fill_n(dqkv, s.batch * s.own() * s.qkv(), T(0));
  std::fill_n(dkv, s.batch * s.sequence * s.kv(), T(0));
  std::vector<T> part(static_cast<std::size_t>(s.heads * length));
  std::vector<T> dkeys(static_cast<std::size_t>(s.sequence * s.kv()));
  for (std::int64_t b = 0; b < s.batch; ++b) {
    const T* keys = kv + b * s.sequence * s.kv();
    for (std::int64_t chunk = 0; chunk < 2; ++chunk) {
      const std::int64_t row = b * s.own() + chunk * length;
      for (std::int64_t head = 0; head < s.heads; ++head) {
        std::copy_n(statistics(s, lse, b, head, chunk), length, part.data() + head * length);
      }
      attention_backward<T>(chunk_shape(s, chunk), {qkv + row * s.qkv(), s.qkv()}, {keys, s.kv()},
                            {keys + s.kv() / 2, s.kv()}, {y + row * width, width}, part.data(),
                            {dy + row * width, width}, {dqkv + row * s.qkv(), s.qkv()},
                            {dkeys.data(), s.kv()}, {dkeys.data() + s.kv() / 2, s.kv()});
      for (std::size_t i = 0; i < dkeys.size(); ++i) {
        dkv[b * s.sequence * s.kv() + static_cast<std::int64_t>(i)] += dkeys[i];
      }
    }
  }
}

template void keys_out<float>(std::int64_t, const ContextShape&, const float*, float*);
template void keys_out<double>(std::int64_t, const ContextShape&, const double*, double*);
template void keys_in<float>(std::int64_t, const ContextShape&, const float*, float*);
template void keys_in<double>(std::int64_t, const ContextShape&, const double*, double*);
template void rows_in_order<float>(const ContextShape&, std::int64_t, const float*, float*, bool);
template void spread_heads<float>(std::int64_t, const ContextShape&, const float*, float*, bool);
template void rows_in_order<double>(const ContextShape&, std::int64_t, const double*, double*,
                                    bool);
template void spread_heads<double>(std::int64_t, const ContextShape&, const double*, double*, bool);
template void context_attention_forward<float>(const ContextShape&, const float*, const float*,
                                               float*, float*);
template void context_attention_forward<double>(const ContextShape&, const double*, const double*,
                                                double*, double*);
template void context_attention_backward<float>(const ContextShape&, const float*, const float*,
                                                const float*, const float*, const float*, float*,
                                                float*);
template void context_attention_backward<double>(const ContextShape&, const double*, const double*,
                                                 const double*, const double*, const double*,
                                                 double*, double*);

}  // namespace trireme::runtime::cpu
