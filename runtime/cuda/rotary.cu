// Rotary position embedding in place, and the heads of latent attention, a part of which it turns.
#include <string>

#include "core/error.h"
#include "runtime/cuda/device_math.cuh"
#include "runtime/cuda/kernels.h"

namespace trireme::runtime::cuda {
namespace {

// Of a token: scaled cosine and signed sine of each pair, in shared memory.
__device__ void make_turns(const RotaryTurns& turns, float position, float sign, float2* made) {
  for (int j = static_cast<int>(threadIdx.x); j < turns.pairs; j += static_cast<int>(blockDim.x)) {
    float sine = 0.0F;
    float cosine = 0.0F;
    sincosf(position * turns.frequencies[j], &sine, &cosine);
    made[j] = make_float2(turns.scale * cosine, sign * turns.scale * sine);
  }
  __syncthreads();
}

__device__ float2 turned(float2 pair, float2 turn) {
  return make_float2(pair.x * turn.x - pair.y * turn.y, pair.y * turn.x + pair.x * turn.y);
}

// The elements of pair j.
template <bool kNeighbours>
__device__ int low_of(int j) {
  return kNeighbours ? 2 * j : j;
}
template <bool kNeighbours>
__device__ int high_of(int j, int pairs) {
  return kNeighbours ? 2 * j + 1 : j + pairs;
}

template <bool kNeighbours>
__device__ float2 pair_at(const Bf16* head, int j, int pairs) {
  return make_float2(__bfloat162float(head[low_of<kNeighbours>(j)]),
                     __bfloat162float(head[high_of<kNeighbours>(j, pairs)]));
}

template <bool kNeighbours>
__device__ void put_pair(Bf16* head, int j, int pairs, float2 pair) {
  head[low_of<kNeighbours>(j)] = __float2bfloat16_rn(pair.x);
  head[high_of<kNeighbours>(j, pairs)] = __float2bfloat16_rn(pair.y);
}

// One block a token: the angles are computed once and used by every head.
template <bool kNeighbours>
__global__ void rotary_kernel(Bf16* x, RotaryRows rows, Positions positions, RotaryTurns turns,
                              float sign) {
  extern __shared__ float2 made[];
  const std::int64_t row = blockIdx.x;
  make_turns(turns, static_cast<float>(position_of(positions, row)), sign, made);
  Bf16* token = x + row * rows.row_stride;
  for (std::int64_t i = threadIdx.x; i < rows.heads * turns.pairs; i += blockDim.x) {
    const int j = static_cast<int>(i % turns.pairs);
    Bf16* head = token + i / turns.pairs * rows.head_stride;
    put_pair<kNeighbours>(head, j, turns.pairs,
                          turned(pair_at<kNeighbours>(head, j, turns.pairs), made[j]));
  }
}

// Two neighbours of each half at a time; their number and their alignment must be even.
__global__ void rotary_halves_kernel(Bf16* x, RotaryRows rows, Positions positions,
                                     RotaryTurns turns, float sign) {
  extern __shared__ float2 made[];
  const std::int64_t row = blockIdx.x;
  make_turns(turns, static_cast<float>(position_of(positions, row)), sign, made);
  Bf16* token = x + row * rows.row_stride;
  const int halves = turns.pairs / 2;
  for (std::int64_t i = threadIdx.x; i < rows.heads * halves; i += blockDim.x) {
    const int j = 2 * static_cast<int>(i % halves);
    Bf16* head = token + i / halves * rows.head_stride;
    auto* lows = reinterpret_cast<__nv_bfloat162*>(head + j);
    auto* highs = reinterpret_cast<__nv_bfloat162*>(head + j + turns.pairs);
    const float2 a = __bfloat1622float2(*lows);
    const float2 b = __bfloat1622float2(*highs);
    const float2 first = turned(make_float2(a.x, b.x), made[j]);
    const float2 second = turned(make_float2(a.y, b.y), made[j + 1]);
    *lows = __floats2bfloat162_rn(first.x, second.x);
    *highs = __floats2bfloat162_rn(first.y, second.y);
  }
}

__device__ void copy8(const Bf16* from, Bf16* to) {
  *reinterpret_cast<Bf16x8*>(to) = *reinterpret_cast<const Bf16x8*>(from);
}

// Copies the first `width` elements of each of `heads` heads.
__device__ void copy_heads(const Bf16* from, std::int64_t from_head, Bf16* to, std::int64_t to_head,
                           std::int64_t heads, std::int64_t width) {
  const std::int64_t vectors = width / kVector;
  for (std::int64_t i = threadIdx.x; i < heads * vectors; i += blockDim.x) {
    const std::int64_t at = i % vectors * kVector;
    copy8(from + i / vectors * from_head + at, to + i / vectors * to_head + at);
  }
}

// Turns the `rope` elements at `from` into those at `to`, head by head; from_head 0: the same for
// every head.
template <bool kNeighbours>
__device__ void turn_heads(const Bf16* from, std::int64_t from_head, Bf16* to, std::int64_t to_head,
                           std::int64_t heads, int pairs, const float2* made) {
  for (std::int64_t i = threadIdx.x; i < heads * pairs; i += blockDim.x) {
    const int j = static_cast<int>(i % pairs);
    put_pair<kNeighbours>(
        to + i / pairs * to_head, j, pairs,
        turned(pair_at<kNeighbours>(from + i / pairs * from_head, j, pairs), made[j]));
  }
}

// One block a token.
template <bool kNeighbours>
__global__ void latent_forward_kernel(LatentHeads s, Positions positions, RotaryTurns turns,
                                      const Bf16* q, const Bf16* kv, const Bf16* key, Bf16* qkv) {
  extern __shared__ float2 made[];
  const std::int64_t row = blockIdx.x;
  make_turns(turns, static_cast<float>(position_of(positions, row)), 1.0F, made);
  const std::int64_t qk = s.nope + s.rope;
  const std::int64_t up = s.nope + s.value;
  const Bf16* from_q = q + row * s.heads * qk;
  const Bf16* from_kv = kv + row * s.heads * up;
  Bf16* to_q = qkv + row * s.heads * (2 * qk + s.value);
  Bf16* to_k = to_q + s.heads * qk;
  copy_heads(from_q, qk, to_q, qk, s.heads, s.nope);
  copy_heads(from_kv, up, to_k, qk, s.heads, s.nope);
  copy_heads(from_kv + s.nope, up, to_k + s.heads * qk, s.value, s.heads, s.value);
  turn_heads<kNeighbours>(from_q + s.nope, qk, to_q + s.nope, qk, s.heads, turns.pairs, made);
  turn_heads<kNeighbours>(key + row * s.rope, 0, to_k + s.nope, qk, s.heads, turns.pairs, made);
}

// One block a token. The rotary key's gradient: each warp adds up some of the heads, then the
// warps' sums are added in order.
template <bool kNeighbours>
__global__ void latent_backward_kernel(LatentHeads s, Positions positions, RotaryTurns turns,
                                       const Bf16* dqkv, Bf16* dq, Bf16* dkv, Bf16* dkey) {
  extern __shared__ float2 made[];
  float* sums = reinterpret_cast<float*>(made + turns.pairs);  // [warps][rope]
  const std::int64_t row = blockIdx.x;
  make_turns(turns, static_cast<float>(position_of(positions, row)), -1.0F, made);
  const std::int64_t qk = s.nope + s.rope;
  const std::int64_t up = s.nope + s.value;
  const Bf16* from_q = dqkv + row * s.heads * (2 * qk + s.value);
  const Bf16* from_k = from_q + s.heads * qk;
  Bf16* to_q = dq + row * s.heads * qk;
  Bf16* to_kv = dkv + row * s.heads * up;
  copy_heads(from_q, qk, to_q, qk, s.heads, s.nope);
  copy_heads(from_k, qk, to_kv, up, s.heads, s.nope);
  copy_heads(from_k + s.heads * qk, s.value, to_kv + s.nope, up, s.heads, s.value);
  turn_heads<kNeighbours>(from_q + s.nope, qk, to_q + s.nope, qk, s.heads, turns.pairs, made);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  for (std::int64_t i = lane; i < s.rope; i += 32) {
    float sum = 0.0F;
    for (std::int64_t head = warp; head < s.heads; head += warps) {
      sum += __bfloat162float(from_k[head * qk + s.nope + i]);
    }
    sums[warp * s.rope + i] = sum;
  }
  __syncthreads();
  for (int j = static_cast<int>(threadIdx.x); j < turns.pairs; j += static_cast<int>(blockDim.x)) {
    float2 pair = make_float2(0.0F, 0.0F);
    for (int w = 0; w < warps; ++w) {
      pair.x += sums[w * s.rope + low_of<kNeighbours>(j)];
      pair.y += sums[w * s.rope + high_of<kNeighbours>(j, turns.pairs)];
    }
    put_pair<kNeighbours>(dkey + row * s.rope, j, turns.pairs, turned(pair, made[j]));
  }
}

std::size_t turns_bytes(const RotaryTurns& turns) {
  return static_cast<std::size_t>(turns.pairs) * sizeof(float2);
}

// Where nothing turns, every pair turns by nothing.
RotaryTurns turns_of_all(const LatentHeads& shape, const RotaryTurns& turns) {
  RotaryTurns all = turns;
  if (turns.pairs == 0) {
    all.pairs = static_cast<int>(shape.rope / 2);
    if (static_cast<std::size_t>(all.pairs) > std::size(all.frequencies)) {
      throw Error("rotary", std::to_string(shape.rope) +
                                " elements of a head are apart; at most 256 on a GPU");
    }
  }
  return all;
}

}  // namespace

void rotary(cudaStream_t stream, Bf16* x, const RotaryRows& rows, const Positions& positions,
            const RotaryTurns& turns, bool inverse) {
  const bool even = turns.pairs % 2 == 0 && rows.head_stride % 2 == 0 && rows.row_stride % 2 == 0 &&
                    reinterpret_cast<std::uintptr_t>(x) % 4 == 0;
  auto* kernel = turns.neighbours ? rotary_kernel<true>
                 : even           ? rotary_halves_kernel
                                  : rotary_kernel<false>;
  kernel<<<static_cast<unsigned int>(rows.rows), kThreads, turns_bytes(turns), stream>>>(
      x, rows, positions, turns, inverse ? -1.0F : 1.0F);
}

void latent_heads_forward(cudaStream_t stream, const LatentHeads& shape, const Positions& positions,
                          const RotaryTurns& turns, const Bf16* q, const Bf16* kv, const Bf16* key,
                          Bf16* qkv) {
  const RotaryTurns all = turns_of_all(shape, turns);
  auto* kernel = turns.neighbours ? latent_forward_kernel<true> : latent_forward_kernel<false>;
  kernel<<<static_cast<unsigned int>(shape.rows), kThreads, turns_bytes(all), stream>>>(
      shape, positions, all, q, kv, key, qkv);
}

void latent_heads_backward(cudaStream_t stream, const LatentHeads& shape,
                           const Positions& positions, const RotaryTurns& turns, const Bf16* dqkv,
                           Bf16* dq, Bf16* dkv, Bf16* dkey) {
  const RotaryTurns all = turns_of_all(shape, turns);
  const std::size_t sums = static_cast<std::size_t>(kThreads / 32 * shape.rope) * sizeof(float);
  auto* kernel = turns.neighbours ? latent_backward_kernel<true> : latent_backward_kernel<false>;
  kernel<<<static_cast<unsigned int>(shape.rows), kThreads, turns_bytes(all) + sums, stream>>>(
      shape, positions, all, dqkv, dq, dkv, dkey);
}

}  // namespace trireme::runtime::cuda
