// The operation graphs that cuDNN fuses into its flash-attention kernels. cuDNN 9.14's own
// attention operation has no causal mask, so the graph spells it out: product, scale, selection by
// index comparison, softmax with statistics, product; and the backward likewise (the structure is
// documented with cuDNN's attention samples).
#pragma once

#include <vector>

#include "runtime/cuda/attention.h"
#include "runtime/cuda/cudnn_graph.h"

namespace trireme::runtime::cuda {

// Attention of some queries over some keys. Distances in elements: between tokens and between
// sequences of q; of k and v; of y and its gradient; between heads of the statistics (queries of a
// sequence, at least); of the gradients of q, and of k and v. Heads lie side by side in a token's
// row.
struct AttentionPiece {
  std::int64_t batch = 0, queries = 0, keys = 0, heads = 0, kv_heads = 0, head_size = 0,
               value_size = 0;
  bool causal = true;  // as many keys as queries
  std::int64_t q_row = 0, q_batch = 0, kv_row = 0, kv_batch = 0, y_row = 0, y_batch = 0,
               lse_head = 0;
  std::int64_t dq_row = 0, dq_batch = 0, dkv_row = 0, dkv_batch = 0;
  friend auto operator<=>(const AttentionPiece&, const AttentionPiece&) = default;
};
// Of whole sequences in [q heads | k heads | v heads] rows.
AttentionPiece piece_of(const AttentionCall& call);

struct AttentionForwardGraph {
  CudnnGraph graph;
  CudnnGraph::Tensor q = 0, k = 0, v = 0, y = 0, lse = 0, scale = 0, masked = 0;  // masked: causal
};
AttentionForwardGraph attention_forward_graph(const AttentionPiece& piece);

struct AttentionBackwardGraph {
  CudnnGraph graph;
  CudnnGraph::Tensor q = 0, k = 0, v = 0, y = 0, dy = 0, lse = 0, dq = 0, dk = 0, dv = 0;
  CudnnGraph::Tensor scale = 0, masked = 0, one = 0;
  CudnnGraph::Tensor softmax_sum = 0, dq_sum = 0;  // scratch: fp32 [B,A,S] and [B,A,S,D]
};
AttentionBackwardGraph attention_backward_graph(const AttentionPiece& piece);

}  // namespace trireme::runtime::cuda
