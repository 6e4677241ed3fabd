// The work of a layer on one rank: matrix products, attention, memory-bound passes, collectives'
// volumes, and the activation bytes kept for backward. Says how much, never how long. Sources:
// planner/cost/formulas.h and the papers it names (Korthikanti et al. 2022, section 4; op-by-op
// counts of Megatron-Core and PyTorch).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/kernels.h"
#include "core/units.h"
#include "models/layer_parts.h"
#include "models/transformer.h"

namespace trireme::models {

enum class AttentionKernel { kFlash, kUnfused };

// How one micro-batch of one layer is cut. tokens on this rank before sequence parallelism =
// micro_batch * sequence / context_parallel.
struct Shard {
  std::int64_t micro_batch = 1;
  std::int64_t sequence = 1;
  std::int64_t tensor_parallel = 1;
  std::int64_t context_parallel = 1;
  std::int64_t expert_parallel = 1;
  std::int64_t expert_tensor_parallel = 1;
  double expert_room =
      1;  // of this project's runtime: for rows of a rank's experts, over even ones
  bool sequence_parallel = false;
  bool even_routing = false;       // every expert gets as many tokens
  bool unbalanced_router = false;  // nothing balances what they get
  AttentionKernel attention = AttentionKernel::kFlash;
  friend bool operator==(const Shard&, const Shard&) = default;
};

// C[m,n] = A[m,k] B[k,n], `count` times (experts, heads). FLOP = 2 m n k count.
struct Matmul {
  Part part = Part::kQkv;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t count = 1;
  bool wide = false;  // in 16 bits, whatever its part is in
};

// Scaled dot-product attention of `batch` sequences by one fused kernel. Causal: half the scores
// are computed; with a window, the scores within it. Under context parallelism query_length is this
// rank's share, balanced so that every rank computes the same.
struct AttentionWork {
  std::int64_t batch = 0;
  std::int64_t heads = 0;  // query heads on this rank
  std::int64_t kv_heads = 0;
  std::int64_t query_length = 0;
  std::int64_t key_length = 0;
  std::int64_t qk_dim = 0;  // per head
  std::int64_t v_dim = 0;
  bool causal = true;
  std::int64_t window = 0;  // tokens a query sees; 0 = all before it
};

// Keys whose scores are computed as of dense attention: under a window every query sees at most
// `window`, and half of a square twice as wide is masked.
constexpr std::int64_t keys_seen(const AttentionWork& attention) {
  return attention.window > 0 && 2 * attention.window < attention.key_length ? 2 * attention.window
                                                                             : attention.key_length;
}

// A pass over memory that computes little: bytes read plus written, and how many kernels it is.
struct MemoryBoundWork {
  Part part = Part::kAttentionNorm;
  Bytes traffic;
  int kernels = 1;
  std::optional<Kernel> own = {};  // which of core/kernels.h it is in this project's runtime
};

// One direction of one layer (or of the embedding, or of the head with the loss), in order of
// execution by kind.
struct PassWork {
  std::vector<Matmul> matmuls;
  std::vector<AttentionWork> attention;
  std::vector<MemoryBoundWork> memory_bound;
};

// Backward is input_gradient and weight_gradient; attention and memory-bound passes stand in the
// former. The attention entry there has the forward shape and stands for the backward kernel, which
// makes five products of that size where forward makes two (it recomputes the scores).
struct LayerWork {
  PassWork forward;
  PassWork input_gradient;
  PassWork weight_gradient;
};

// Whose op list is counted: Megatron-Core with TransformerEngine, PyTorch eager or compiled
// (torchtitan), Megatron-LM of 2020-22, or this project's runtime (core/kernels.h).
enum class Implementation {
  kTransformerEngine,
  kEagerTorch,
  kCompiledTorch,
  kClassicMegatron,
  kTrireme
};

// What decides which kernels run, besides the shapes.
struct Kernels {
  Implementation implementation = Implementation::kTransformerEngine;
  double dropout = 0.0;              // hidden and attention dropout probability
  bool fused_cross_entropy = false;  // one kernel over the 2-byte logits, gradient in place
  bool masked_softmax = true;        // scale, mask and softmax of unfused scores may be one kernel
  // Of Megatron's own layers: the bias of queries, keys and values is added, and their gradients
  // are joined, an element at a time.
  bool element_joins = false;
  // Tokens arrive once a rank and are laid out by expert there (DeepEP); else copied in order
  // before they leave, and again when they have come.
  bool permuted_once = false;
  int expert_kernels = 0;  // of each local expert in forward, where experts are computed in turn
  // Tokens are copied to their experts' order and back by one kernel each, not by small operations.
  bool fused_permutation = true;
  friend bool operator==(const Kernels&, const Kernels&) = default;
};

// Work of one micro-batch on one rank. Activations have 2 bytes an element (bf16, fp16). Dimensions
// that a degree does not divide are rounded up (the busiest rank's share); experts get an equal
// share of the tokens. Unfused attention appears as the products "scores" and "context" with the
// passes over the s^2 scores; flash attention as an AttentionWork.
// The layer of an extra prediction module begins with two norms and the projection of the streams
// that it joins.
LayerWork layer_work(const Transformer& model, std::int64_t layer, const Shard& shard,
                     const Kernels& kernels = {});
LayerWork embedding_work(const Transformer& model, const Shard& shard, const Kernels& kernels = {});
// Final norm, output matrix, cross-entropy; once more for each extra prediction module.
LayerWork head_work(const Transformer& model, const Shard& shard, const Kernels& kernels = {});

// What backward repeats of a layer's forward: of `modules` (kWholeLayer: everything).
// `stops_early`: not what the layer's output alone needs (PyTorch's early stop, this project's
// runtime); frameworks that recompute through autograd hooks repeat that too.
inline constexpr std::uint16_t kWholeLayer = 0xffff;
struct Repeat {
  std::uint16_t modules = kWholeLayer;
  bool stops_early = false;
};
PassWork repeated_work(const PassWork& forward, const Repeat& repeat);

Flop flop_of(const Matmul& matmul);
// FLOP of one forward pass of attention. With `half_causal` only the scores that a causal mask and
// a window leave (s/2 a query, w - w^2/(2s) under a window w < s); without, query_length x
// key_length.
Flop flop_of(const AttentionWork& attention, bool half_causal);

// Which causal-attention convention a reported FLOP count follows.
enum class FlopConvention {
  kHalfCausal,     // Megatron-Core 0.12 and later: matrix weights, half of the scores
  kFullAttention,  // torchtitan, PaLM: 6 x parameters (no input table unless tied), all scores
};
// FLOP of the model for one token of a sequence, forward and backward, no recompute (3 x forward).
// The router's product, as in Megatron, is in kFullAttention only.
Flop model_flop_per_token(const Transformer& model, std::int64_t sequence,
                          FlopConvention convention);
// What the multi_token_layers add to it; 0 without them.
Flop multi_token_flop_per_token(const Transformer& model, std::int64_t sequence,
                                FlopConvention convention);

// Bytes kept for backward by one layer, item by item; the sum is the layer's activation memory.
struct KeptItem {
  Kept kept = Kept::kAttentionNormInput;
  Bytes bytes;
};
std::vector<KeptItem> kept_activations(const Transformer& model, std::int64_t layer,
                                       const Shard& shard, Implementation implementation,
                                       double dropout);

}  // namespace trireme::models
