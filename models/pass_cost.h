// Bytes and kernels of memory-bound passes, for each implementation: how often a tensor's elements
// go through memory. Counted from the kernels that each implementation launches; an element is 2
// bytes, an fp32 copy 4, a dropout mask 1.
#pragma once

#include "models/work.h"

namespace trireme::models {

// Per element: bytes read plus written, and how many kernels, in each direction.
struct PassCost {
  double forward_bytes = 0.0;
  double backward_bytes = 0.0;
  int forward_kernels = 1;
  int backward_kernels = 1;
};

PassCost norm_cost(Implementation implementation);
PassCost residual_cost(Implementation implementation, double dropout);
// Per element of queries, keys and values: their gradients joined behind attention (`alike`: as
// many heads of each); their bias added by a kernel of its own.
PassCost joined_gradients_cost(const Kernels& kernels, bool alike);
PassCost element_bias_cost();
PassCost rotary_cost(Implementation implementation);
// Per element of the inner size (one of gate and up).
PassCost activation_cost(Implementation implementation, bool gated);
// Whether scale, mask and softmax of unfused attention are one kernel: Megatron's own, which Apex
// brings, takes whole blocks of four rows of scores only (batch x local heads).
bool has_joined_softmax(const Kernels& kernels, std::int64_t batch, std::int64_t keys);
// Per score of unfused attention: scale, mask, softmax.
PassCost softmax_cost(const Kernels& kernels, bool joined);
PassCost dropout_cost();
// Per element of the queries and of the keys that latent attention puts together from their parts.
PassCost latent_layout_cost(Implementation implementation);
// Per element that a rank's experts return: Megatron-Core's second bias of experts, weighted by the
// router, expert by expert (TEGroupedMLP._apply_bias).
PassCost weighted_bias_cost(std::int64_t local_experts);
// Per element of a token that is copied into, or out of, the order of its experts: the mean of
// both. `fused`: Transformer Engine's permutation, and not Megatron-Core's own small operations.
PassCost expert_copy_cost(Implementation implementation, bool fused);
// Of this project's runtime: an element of the rows that a token's `chosen` experts get: they are
// written from one row of the token, and back weighed into one.
PassCost own_permute_cost(std::int64_t chosen);
PassCost own_combine_cost(std::int64_t chosen);
// Per logit.
PassCost cross_entropy_cost(const Kernels& kernels);

// Torch's own models have q, k, v and gate, up as matrices of their own; Megatron fuses them.
constexpr bool has_fused_projections(Implementation implementation) {
  return implementation == Implementation::kTransformerEngine ||
         implementation == Implementation::kClassicMegatron ||
         implementation == Implementation::kTrireme;
}

}  // namespace trireme::models
