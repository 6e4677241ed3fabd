// The operation graphs that cuDNN fuses into its flash-attention kernels. cuDNN 9.14's own
// attention operation has no causal mask, so the graph spells it out: product, scale, selection by
// index comparison, softmax with statistics, product; and the backward likewise (the structure is
// documented with cuDNN's attention samples).
#pragma once

#include <vector>

#include "runtime/cuda/attention.h"
#include "runtime/cuda/cudnn_graph.h"

namespace trireme::runtime::cuda {

struct AttentionForwardGraph {
  CudnnGraph graph;
  CudnnGraph::Tensor q = 0, k = 0, v = 0, y = 0, lse = 0, scale = 0, masked = 0;
};
AttentionForwardGraph attention_forward_graph(const AttentionCall& call);

struct AttentionBackwardGraph {
  CudnnGraph graph;
  CudnnGraph::Tensor q = 0, k = 0, v = 0, y = 0, dy = 0, lse = 0, dq = 0, dk = 0, dv = 0;
  CudnnGraph::Tensor scale = 0, masked = 0, one = 0;
  CudnnGraph::Tensor softmax_sum = 0, dq_sum = 0;  // scratch: fp32 [B,A,S] and [B,A,S,D]
};
AttentionBackwardGraph attention_backward_graph(const AttentionCall& call);

}  // namespace trireme::runtime::cuda
