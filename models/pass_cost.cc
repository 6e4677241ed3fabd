#include "models/pass_cost.h"

namespace trireme::models {

PassCost norm_cost(Implementation implementation) {
  // Forward reads x, writes y. Backward reads dy and x, writes dx; the weight gradient is a second
  // kernel, which in PyTorch and Apex reads dy and x again.
  switch (implementation) {
    case Implementation::kTransformerEngine:
    case Implementation::kCompiledTorch:
      return {4.0, 6.0, 1, 2};
    case Implementation::kEagerTorch:
    case Implementation::kClassicMegatron:
      return {4.0, 10.0, 1, 2};
    case Implementation::kTrireme:
      return {4.0, 8.0, 1, 1};  // backward also adds the gradient of the stream
  }
  return {};
}

PassCost residual_cost(Implementation implementation, double dropout) {
  if (implementation == Implementation::kTrireme) {
    return {6.0, 0.0, 1, 0};  // the norm's backward adds the stream's gradient
  }
  // Forward adds two tensors; backward adds the gradients of the branch and of the stream. The
  // compiler joins both with the neighbouring norm. Megatron joins dropout with the addition.
  PassCost cost = implementation == Implementation::kCompiledTorch ? PassCost{4.0, 2.0, 0, 0}
                                                                   : PassCost{6.0, 6.0, 1, 1};
  if (dropout > 0.0) {
    const bool joined = implementation != Implementation::kEagerTorch;
    cost.forward_bytes += joined ? 1.0 : 5.0;
    cost.forward_kernels += joined ? 0 : 1;
    cost.backward_bytes += 5.0;
    cost.backward_kernels += 1;
  }
  return cost;
}

PassCost joined_gradients_cost(const Kernels& kernels, bool alike) {
  // Three views of one head beside each other are joined an element at a time: 4.6 ps each, as long
  // as 20 bytes (trace of gpt3-1.3b on H200); groups of queries per key are whole vectors.
  return {0.0, alike && kernels.element_joins ? 20.0 : 4.0, 0, 1};
}

PassCost element_bias_cost() {
  return {11.0, 0.0, 1, 0};  // 2.5 ps an element, as long as 11 bytes (the same trace)
}

PassCost rotary_cost(Implementation implementation) {
  switch (implementation) {
    case Implementation::kTransformerEngine:
      return {4.0, 4.0, 2, 2};  // one kernel each for q and k
    case Implementation::kCompiledTorch:
    case Implementation::kTrireme:
      return {4.0, 4.0, 1, 1};
    case Implementation::kEagerTorch:
      // To fp32 (2 + 4), complex product (4 + 4), back (4 + 2); for q and for k.
      return {20.0, 20.0, 6, 6};
    case Implementation::kClassicMegatron:
      // t * cos + rotate_half(t) * sin: negation and concatenation, two products, one sum.
      return {20.0, 20.0, 8, 8};
  }
  return {};
}

PassCost activation_cost(Implementation implementation, bool gated) {
  if (!gated) {
    return {4.0, 6.0, 1, 1};  // with the bias joined where there is one
  }
  if (implementation == Implementation::kEagerTorch) {
    // silu (2 + 2) and product (4 + 2); backward: two products (4 + 2 each) and silu (4 + 2).
    return {10.0, 18.0, 2, 3};
  }
  return {6.0, 10.0, 1, 1};  // reads gate and up, writes one; backward reads dy too, writes two
}

bool has_joined_softmax(const Kernels& kernels, std::int64_t batch, std::int64_t keys) {
  if (kernels.implementation != Implementation::kClassicMegatron) {
    return true;
  }
  constexpr std::int64_t kLongest = 4096;
  return kernels.masked_softmax && batch % 4 == 0 && keys > 16 && keys <= kLongest;
}

PassCost softmax_cost(const Kernels& kernels, bool joined) {
  const Implementation implementation = kernels.implementation;
  if (implementation == Implementation::kClassicMegatron && !kernels.masked_softmax) {
    // In 16 bits: mask made (3 kernels), fill under it, softmax; backward: product (6), softmax
    // (6), copy and fill, zeros (2.5) and four copies (17), since the fill was in place. A fill
    // under a mask of one head and a softmax over rows of 2048 take 2.7 and 2.8 ps a score, as long
    // as 12 bytes (traces of gpt3-1.3b and llama-1b-untied on H200, PyTorch 2.11).
    return {24.5, 48.5, 5, 9};
  }
  if (implementation == Implementation::kClassicMegatron && !joined) {
    // To fp32 (6), scale (8), mask (9), softmax (8), back (6); backward of each (6, 12, 8, 8, 6).
    return {37.0, 40.0, 5, 5};
  }
  switch (implementation) {
    case Implementation::kTransformerEngine:
    case Implementation::kClassicMegatron:
    case Implementation::kTrireme:
      return {4.0, 6.0, 1, 1};  // scale, mask and softmax in one kernel
    case Implementation::kCompiledTorch:
      return {6.0, 8.0, 1, 1};
    case Implementation::kEagerTorch:
      // Scale (4), mask (4), softmax in fp32 (2 + 4), back (4 + 2); backward: to fp32 (6), softmax
      // (12), back (6), scale (4).
      return {20.0, 28.0, 4, 4};
  }
  return {};
}

PassCost dropout_cost() {
  return {5.0, 5.0, 1, 1};
}

PassCost latent_layout_cost(Implementation implementation) {
  if (implementation == Implementation::kEagerTorch) {
    // Splits, expansions, concatenations and their copies: 19.2 and 15.6 ms for 16 sequences of
    // 4096 with 128 heads on GB300 (torchtitan, before its fused kernel; rotary included).
    return {36.0, 28.0, 8, 8};
  }
  return {4.0, 4.0, 2, 2};
}

PassCost weighted_bias_cost(std::int64_t local_experts) {
  // b p in fp32 (4), t + b p (2 + 4 + 4), all experts' joined (8), back
  // (4 + 2). Backward: to fp32 (6), t's gradient (6), p's (b g and its sum: 8 + 4), b's (12).
  const auto experts = static_cast<int>(local_experts);
  return {28.0, 36.0, 2 * experts + 2, 5 * experts + 1};
}

PassCost expert_copy_cost(Implementation implementation, bool fused) {
  if (implementation == Implementation::kEagerTorch) {
    // Gather or scatter-add (4), weighting in fp32 (2 + 4, 4 + 2), padding to the product's
    // alignment (4); backward the same without the gather's index.
    return {20.0, 20.0, 4, 4};
  }
  if (implementation == Implementation::kTransformerEngine && !fused) {
    // In: index_select (4), its backward zeros (2) and index_add (6). Out: tokens by fp32
    // probabilities (2 + 4), scatter_add in fp32 (4 + 8); backward gather (4 + 4), both products'
    // gradients (4 + 2, 4 + 2).
    return {11.0, 14.0, 2, 3};
  }
  return {4.0, 4.0, 1, 1};
}

PassCost own_permute_cost(std::int64_t chosen) {
  const double token = 2.0 / static_cast<double>(chosen);
  return {2.0 + token, 2.0 + token, 1, 1};
}

PassCost own_combine_cost(std::int64_t chosen) {
  const double token = 2.0 / static_cast<double>(chosen);
  return {2.0 + token, 4.0 + token, 1, 1};  // backward reads the rows for their weights' gradients
}

PassCost cross_entropy_cost(const Kernels& kernels) {
  if (kernels.implementation == Implementation::kTrireme) {
    return {2.0, 4.0, 2, 1};  // one reading for maximum and sum, the loss; gradient in place
  }
  if (kernels.fused_cross_entropy) {
    return {6.0, 4.0, 1, 1};  // two readings, gradient written in place; backward scales it
  }
  switch (kernels.implementation) {
    case Implementation::kTransformerEngine:
    case Implementation::kClassicMegatron:
      // Vocabulary-parallel, fp32: copy (2 + 4), maximum (4), subtract (8), exp (8), sum (4),
      // divide (8); backward: product (8), to 2 bytes (6).
      return {38.0, 14.0, 6, 2};
    case Implementation::kEagerTorch:
      // Copy (2 + 4), log-softmax (8 + 4); backward: zeros (4), log-softmax (12 + 4), back (4 + 2).
      return {18.0, 26.0, 3, 4};
    case Implementation::kCompiledTorch:
      return {6.0, 6.0, 2, 2};
    case Implementation::kTrireme:
      break;
  }
  return {};
}

}  // namespace trireme::models
