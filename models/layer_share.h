// One rank's share of a layer: the local sizes that the work lists are written in.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "models/work.h"

namespace trireme::models {

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

struct LayerShare {
  std::int64_t tokens = 0;         // inside tensor-parallel matrices
  std::int64_t stream_tokens = 0;  // in the residual stream: fewer with sequence parallelism
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t query_length = 0;
  std::int64_t qk_dim = 0;
  std::int64_t v_dim = 0;
};

inline LayerShare layer_share(const Transformer& model, const Shard& shard) {
  LayerShare share;
  share.query_length = divide_up(shard.sequence, shard.context_parallel);
  share.tokens = shard.micro_batch * share.query_length;
  share.stream_tokens =
      shard.sequence_parallel ? divide_up(share.tokens, shard.tensor_parallel) : share.tokens;
  share.heads = divide_up(model.heads, shard.tensor_parallel);
  share.kv_heads = divide_up(model.kv_heads, shard.tensor_parallel);
  share.qk_dim = model.latent ? model.latent->qk_nope + model.latent->qk_rope : model.head_dim;
  share.v_dim = model.latent ? model.latent->v_head : model.head_dim;
  return share;
}

// The routed experts of one rank, with an equal share of the tokens of its expert group.
struct ExpertShare {
  std::int64_t routed_tokens = 0;  // tokens this rank routes
  std::int64_t local_experts = 0;
  std::int64_t tokens_per_expert = 0;  // rows of each local expert's matrices
  std::int64_t inner = 0;              // expert_ffn over expert_tensor_parallel
};

inline ExpertShare expert_share(const Transformer& model, const Shard& shard,
                                const LayerShare& layer) {
  const MixtureOfExperts& moe = *model.moe;
  ExpertShare share;
  // Tokens reach the experts once, whether or not the residual stream is split.
  share.routed_tokens = divide_up(layer.tokens, shard.tensor_parallel);
  share.local_experts = divide_up(moe.experts, shard.expert_parallel);
  const double group_slots = static_cast<double>(share.routed_tokens * moe.experts_per_token) *
                             static_cast<double>(shard.expert_parallel) *
                             static_cast<double>(shard.expert_tensor_parallel);
  const double capacity = moe.capacity_factor > 0.0 ? moe.capacity_factor : 1.0;
  const double rows = group_slots * capacity / static_cast<double>(moe.experts);
  share.tokens_per_expert = std::max<std::int64_t>(1, std::llround(rows));
  share.inner = divide_up(moe.expert_ffn, shard.expert_tensor_parallel);
  return share;
}

// Whether nothing evens out what comes to the ranks that share the experts; a capacity drops what
// is beyond it.
inline bool is_unevenly_loaded(const MixtureOfExperts& moe, std::int64_t expert_parallel,
                               bool even_routing) {
  return expert_parallel > 1 && !even_routing && moe.capacity_factor <= 0;
}
// Tokens of the busiest rank over the mean: a router spreads by 1 / sqrt(experts of a rank). At the
// fullest moment of a run that is what Megatron-LM's functional tests keep in memory.
inline double fullest_expert_load(double experts_of_rank) {
  return 1 + 1 / std::sqrt(experts_of_rank);
}
// Where all tokens take the same `chosen` experts, wherever those lie among the ranks: how many lie
// together on the busiest, on average, over what an even load is.
double same_experts_load(std::int64_t chosen, std::int64_t ranks);
// In the mean of a step's layers, each of which waits for its busiest rank, half as far from even:
// sqrt(2 ln 8) deviations among eight ranks against sqrt(2 ln 2000) over layers and steps too. A
// router whose bias chooses balances itself (DeepSeek-V3); one that nothing balances collapses.
inline double busiest_expert_load(const Transformer& model, const Shard& shard) {
  const MixtureOfExperts& moe = *model.moe;
  const bool uneven = is_unevenly_loaded(moe, shard.expert_parallel, shard.even_routing) &&
                      !model.function.router_bias_selects;
  const auto experts = static_cast<double>(divide_up(moe.experts, shard.expert_parallel));
  return !uneven                   ? 1
         : shard.unbalanced_router ? same_experts_load(moe.experts_per_token, shard.expert_parallel)
                                   : 1 + 0.5 / std::sqrt(experts);
}

}  // namespace trireme::models
