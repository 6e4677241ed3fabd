// Routed experts: the choice, the order of rows by expert, and their moves. Orders and sums are
// fixed, so that two runs give the same bits.
#include "runtime/cuda/device_math.cuh"
#include "runtime/cuda/experts.h"

namespace trireme::runtime::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kTokensPerBlock = 4;  // one warp each
constexpr int kMaxExperts = 1024;   // a bit of each in its lane's 32
constexpr unsigned kAll = 0xffffffffU;

__device__ float sigmoid(float x) {
  return 1.0F / (1.0F + expf(-x));
}

struct Choice {
  float rank;
  int expert;
};

// The larger rank, of equal ones the lower expert; every lane gets it.
__device__ Choice best_of_warp(Choice own) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const float rank = __shfl_xor_sync(kAll, own.rank, offset);
    const int expert = __shfl_xor_sync(kAll, own.expert, offset);
    if (rank > own.rank || (rank == own.rank && expert < own.expert)) {
      own = {rank, expert};
    }
  }
  return own;
}

// One bit a group of experts: those that are left. `rank` is of an expert.
template <typename Rank>
__device__ unsigned best_groups(const Route& route, int lane, Rank rank) {
  if (route.groups <= 1) {
    return kAll;
  }
  const int size = static_cast<int>(route.experts) / route.groups;
  float own = -INFINITY;  // of the group with the lane's number
  for (int group = 0; group < route.groups; ++group) {
    float value = 0.0F;
    int first = kMaxExperts;
    for (int place = 0; place < (route.groups_by_two && size > 1 ? 2 : 1); ++place) {
      Choice best{-INFINITY, kMaxExperts};
      for (int e = group * size + lane; e < (group + 1) * size; e += kWarp) {
        if (e != first && (rank(e) > best.rank || best.expert == kMaxExperts)) {
          best = {rank(e), e};
        }
      }
      best = best_of_warp(best);
      first = best.expert;
      value += best.rank;
    }
    own = lane == group ? value : own;
  }
  unsigned left = 0;
  bool taken = lane >= route.groups;
  for (int j = 0; j < route.groups_chosen; ++j) {
    const Choice best = best_of_warp(taken ? Choice{-INFINITY, kMaxExperts} : Choice{own, lane});
    left |= 1U << best.expert;
    taken = taken || best.expert == lane;
  }
  return left;
}

// A warp a token. A softmax's largest logit is its largest score, so ranks are the logits' where no
// bias is added.
__global__ void route_forward_kernel(Route route, const float* logits, const Bf16* bias,
                                     float* weights, std::int32_t* experts) {
  const std::int64_t token =
      static_cast<std::int64_t>(blockIdx.x) * kTokensPerBlock + threadIdx.x / kWarp;
  if (token >= route.tokens) {
    return;
  }
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int count = static_cast<int>(route.experts);
  const float* row = logits + token * route.experts;
  float largest = -INFINITY;
  for (int e = lane; e < count; e += kWarp) {
    largest = fmaxf(largest, row[e]);
  }
  largest = warp_max(largest);
  float all = 0.0F;
  for (int e = lane; e < count; e += kWarp) {
    all += expf(row[e] - largest);
  }
  all = warp_sum(all);
  const auto score = [&](int e) {
    return route.sigmoid ? sigmoid(row[e]) : expf(row[e] - largest) / all;
  };
  const auto rank_of = [&](int e) {
    return bias != nullptr    ? score(e) + __bfloat162float(bias[e])
           : route.groups > 1 ? score(e)
                              : row[e];
  };
  const unsigned groups = best_groups(route, lane, rank_of);
  const int group_size = route.groups > 1 ? count / route.groups : count;
  unsigned taken = 0;
  float sum = 0.0F;
  for (int j = 0; j < route.chosen; ++j) {
    Choice own{-INFINITY, kMaxExperts};
    for (int e = lane, i = 0; e < count; e += kWarp, ++i) {
      const float rank = rank_of(e);
      if ((taken >> i & 1U) == 0 && (groups >> e / group_size & 1U) != 0 &&
          (rank > own.rank || own.expert == kMaxExperts)) {
        own = {rank, e};
      }
    }
    const Choice chosen = best_of_warp(own);
    if (chosen.expert % kWarp == lane) {
      taken |= 1U << (chosen.expert / kWarp);
    }
    const float value = score(chosen.expert);
    sum += value;
    if (lane == 0) {
      experts[token * route.chosen + j] = chosen.expert;
      weights[token * route.chosen + j] = value;
    }
  }
  if (lane == 0) {
    for (int j = 0; j < route.chosen; ++j) {
      weights[token * route.chosen + j] *= route.scale / (route.normalises ? sum : 1.0F);
    }
  }
}

__global__ void route_backward_kernel(Route route, const float* dweights, const float* weights,
                                      const std::int32_t* experts, const float* logits,
                                      Bf16* dlogits) {
  const std::int64_t token =
      static_cast<std::int64_t>(blockIdx.x) * kTokensPerBlock + threadIdx.x / kWarp;
  if (token >= route.tokens) {
    return;
  }
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t first = token * route.chosen;
  Bf16* row = dlogits + token * route.experts;
  float sum = 0.0F;
  for (std::int64_t j = 0; j < route.chosen; ++j) {
    sum += weights[first + j] * dweights[first + j];
  }
  // A softmax takes the mean over all experts out; of normalised weights nothing is left of it.
  const float* own = logits + token * route.experts;
  const bool whole = !route.normalises && !route.sigmoid;
  float largest = -INFINITY;
  float all = 0.0F;
  if (whole) {
    for (std::int64_t e = lane; e < route.experts; e += kWarp) {
      largest = fmaxf(largest, own[e]);
    }
    largest = warp_max(largest);
    for (std::int64_t e = lane; e < route.experts; e += kWarp) {
      all += expf(own[e] - largest);
    }
    all = warp_sum(all);
  }
  const auto taken_out = [&](std::int64_t e) {
    return whole ? expf(own[e] - largest) / all * sum : 0.0F;
  };
  for (std::int64_t e = lane; e < route.experts; e += kWarp) {
    row[e] = __float2bfloat16(-taken_out(e));
  }
  __syncwarp();
  const float mean = route.normalises ? sum / route.scale : 0.0F;
  for (std::int64_t j = lane; j < route.chosen; j += kWarp) {
    const std::int32_t e = experts[first + j];
    const float slope = route.sigmoid ? 1.0F - sigmoid(own[e]) : 1.0F;
    row[e] =
        __float2bfloat16(weights[first + j] * (dweights[first + j] - mean) * slope - taken_out(e));
  }
}

// A block an expert: how many slots chose it.
__global__ void count_kernel(const std::int32_t* chosen, std::int64_t slots, std::int32_t* counts) {
  __shared__ float shared[kWarp];
  const auto expert = static_cast<std::int32_t>(blockIdx.x);
  int own = 0;
  for (std::int64_t i = threadIdx.x; i < slots; i += blockDim.x) {
    own += chosen[i] == expert ? 1 : 0;
  }
  // Exact: fewer than 2^24 slots are checked for.
  const float sum = block_sum(static_cast<float>(own), shared);
  if (threadIdx.x == 0) {
    counts[expert] = static_cast<std::int32_t>(sum);
  }
}

// A block an expert walks over all slots and numbers its own, after those of the experts before.
__global__ void places_kernel(const std::int32_t* chosen, std::int64_t slots,
                              const std::int32_t* counts, std::int32_t* places) {
  __shared__ int warp_counts[kThreads / kWarp];
  const auto expert = static_cast<std::int32_t>(blockIdx.x);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  int next = 0;
  for (std::int32_t e = 0; e < expert; ++e) {
    next += counts[e];
  }
  for (std::int64_t first = 0; first < slots; first += kThreads) {
    const std::int64_t i = first + threadIdx.x;
    const bool mine = i < slots && chosen[i] == expert;
    const unsigned votes = __ballot_sync(kAll, mine);
    if (lane == 0) {
      warp_counts[warp] = __popc(votes);
    }
    __syncthreads();
    int before = 0;
    int all = 0;
    for (int w = 0; w < kThreads / kWarp; ++w) {
      before += w < warp ? warp_counts[w] : 0;
      all += warp_counts[w];
    }
    if (mine) {
      places[i] = next + before + __popc(votes & ((1U << lane) - 1U));
    }
    next += all;
    __syncthreads();
  }
}

__device__ void copy_row(const Bf16* from, Bf16* to, std::int64_t width) {
  for (std::int64_t i = threadIdx.x * kVector; i < width; i += blockDim.x * kVector) {
    *reinterpret_cast<Bf16x8*>(to + i) = *reinterpret_cast<const Bf16x8*>(from + i);
  }
}

__global__ void permute_kernel(ExpertRows rows, const Bf16* x, const std::int32_t* places,
                               Bf16* y) {
  const std::int64_t slot = blockIdx.x;
  const std::int64_t token = blockIdx.x / static_cast<std::uint32_t>(rows.chosen);
  copy_row(x + token * rows.width, y + places[slot] * rows.width, rows.width);
}

// A block a token.
__global__ void combine_kernel(ExpertRows rows, const Bf16* y, const std::int32_t* places,
                               const float* weights, Bf16* x) {
  const std::int64_t token = blockIdx.x;
  for (std::int64_t i = threadIdx.x * kVector; i < rows.width; i += blockDim.x * kVector) {
    float sum[kVector] = {};
    for (std::int64_t slot = token * rows.chosen; slot < (token + 1) * rows.chosen; ++slot) {
      float values[kVector];
      load8(y + places[slot] * rows.width + i, values);
      const float weight = weights != nullptr ? weights[slot] : 1.0F;
      for (int v = 0; v < kVector; ++v) {
        sum[v] += weight * values[v];
      }
    }
    store8(x + token * rows.width + i, sum);
  }
}

// A block a slot.
__global__ void combine_backward_kernel(ExpertRows rows, const Bf16* dx, const Bf16* y,
                                        const std::int32_t* places, const float* weights, Bf16* dy,
                                        float* dweights) {
  __shared__ float shared[kWarp];
  const std::int64_t slot = blockIdx.x;
  const std::int64_t token = blockIdx.x / static_cast<std::uint32_t>(rows.chosen);
  const std::int64_t row = places[slot] * rows.width;
  float dot = 0.0F;
  for (std::int64_t i = threadIdx.x * kVector; i < rows.width; i += blockDim.x * kVector) {
    float gradient[kVector];
    float values[kVector];
    load8(dx + token * rows.width + i, gradient);
    load8(y + row + i, values);
    for (int v = 0; v < kVector; ++v) {
      dot += gradient[v] * values[v];
      gradient[v] *= weights[slot];
    }
    store8(dy + row + i, gradient);
  }
  dot = block_sum(dot, shared);
  if (threadIdx.x == 0) {
    dweights[slot] = dot;
  }
}

// Blocks (sender and expert, slice): where the pair's rows lie before and after, then a slice's
// copies.
__global__ void regroup_kernel(std::int64_t senders, std::int64_t experts, std::int64_t width,
                               const std::int32_t* counts, const Bf16* x, Bf16* y, bool inverse) {
  __shared__ unsigned long long starts[2];
  const auto size = static_cast<std::uint32_t>(experts);
  const std::uint32_t sender = blockIdx.x / size;
  const std::uint32_t expert = blockIdx.x % size;
  if (threadIdx.x < 2) {
    starts[threadIdx.x] = 0;
  }
  __syncthreads();
  // Whole numbers, so that the order of the sums makes no difference. One thread alone would read
  // the counts one after the other, which takes as long as the block's copies.
  unsigned long long sent = 0;
  unsigned long long grouped = 0;
  for (std::uint32_t i = threadIdx.x; i < senders * size; i += blockDim.x) {
    const std::uint32_t s = i / size;
    const std::uint32_t e = i % size;
    const auto rows = static_cast<unsigned long long>(counts[i]);
    sent += i < blockIdx.x ? rows : 0;
    grouped += e < expert || (e == expert && s < sender) ? rows : 0;
  }
  if (sent > 0) {
    atomicAdd(&starts[0], sent);
  }
  if (grouped > 0) {
    atomicAdd(&starts[1], grouped);
  }
  __syncthreads();
  const auto from = static_cast<std::int64_t>(starts[inverse ? 1 : 0]);
  const auto to = static_cast<std::int64_t>(starts[inverse ? 0 : 1]);
  for (std::int64_t row = blockIdx.y; row < counts[blockIdx.x]; row += gridDim.y) {
    copy_row(x + (from + row) * width, y + (to + row) * width, width);
  }
}

unsigned int one_each(std::int64_t items) {
  return static_cast<unsigned int>(items);
}

}  // namespace

void route_forward(cudaStream_t stream, const Route& route, const float* logits, const Bf16* bias,
                   float* weights, std::int32_t* experts) {
  route_forward_kernel<<<blocks_for(route.tokens, kTokensPerBlock), kTokensPerBlock * kWarp, 0,
                         stream>>>(route, logits, bias, weights, experts);
}

void route_backward(cudaStream_t stream, const Route& route, const float* dweights,
                    const float* weights, const std::int32_t* experts, const float* logits,
                    Bf16* dlogits) {
  route_backward_kernel<<<blocks_for(route.tokens, kTokensPerBlock), kTokensPerBlock * kWarp, 0,
                          stream>>>(route, dweights, weights, experts, logits, dlogits);
}

void expert_places(cudaStream_t stream, std::int64_t slots, std::int64_t experts,
                   const std::int32_t* chosen, std::int32_t* places, std::int32_t* counts) {
  count_kernel<<<one_each(experts), kThreads, 0, stream>>>(chosen, slots, counts);
  places_kernel<<<one_each(experts), kThreads, 0, stream>>>(chosen, slots, counts, places);
}

void permute_rows(cudaStream_t stream, const ExpertRows& rows, const Bf16* x,
                  const std::int32_t* places, Bf16* y) {
  permute_kernel<<<one_each(rows.tokens * rows.chosen), kThreads, 0, stream>>>(rows, x, places, y);
}

void combine_rows(cudaStream_t stream, const ExpertRows& rows, const Bf16* y,
                  const std::int32_t* places, const float* weights, Bf16* x) {
  combine_kernel<<<one_each(rows.tokens), kThreads, 0, stream>>>(rows, y, places, weights, x);
}

void combine_backward(cudaStream_t stream, const ExpertRows& rows, const Bf16* dx, const Bf16* y,
                      const std::int32_t* places, const float* weights, Bf16* dy, float* dweights) {
  combine_backward_kernel<<<one_each(rows.tokens * rows.chosen), kThreads, 0, stream>>>(
      rows, dx, y, places, weights, dy, dweights);
}

void regroup_rows(cudaStream_t stream, std::int64_t senders, std::int64_t experts,
                  std::int64_t width, const std::int32_t* counts, const Bf16* x, Bf16* y,
                  bool inverse) {
  constexpr std::int64_t kBlocks = 4096;  // enough to fill a GPU
  const std::int64_t pairs = senders * experts;
  const dim3 grid(one_each(pairs), one_each((kBlocks + pairs - 1) / pairs));
  regroup_kernel<<<grid, kThreads, 0, stream>>>(senders, experts, width, counts, x, y, inverse);
}

}  // namespace trireme::runtime::cuda
