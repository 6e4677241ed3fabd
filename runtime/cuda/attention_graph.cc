#include "runtime/cuda/attention_graph.h"

namespace trireme::runtime::cuda {
namespace {

using Tensor = CudnnGraph::Tensor;
constexpr cudnnDataType_t kBf16 = CUDNN_DATA_BFLOAT16;
constexpr cudnnDataType_t kFloat = CUDNN_DATA_FLOAT;

// Shapes and strides of one call; cuDNN's order is batch, head, row, column.
struct Layout {
  std::int64_t b, a, k, s, d, width;

  explicit Layout(const AttentionCall& call)
      : b(call.batch),
        a(call.heads),
        k(call.kv_heads),
        s(call.sequence),
        d(call.head_size),
        width((call.heads + 2 * call.kv_heads) * call.head_size) {}
  [[nodiscard]] Dims in_qkv() const { return {s * width, d, width, 1}; }
  [[nodiscard]] Dims in_qkv_transposed() const { return {s * width, d, 1, width}; }
  [[nodiscard]] Dims in_output() const { return {s * a * d, d, a * d, 1}; }
  [[nodiscard]] Dims scores() const { return {b, a, s, s}; }
  [[nodiscard]] Dims scores_strides() const { return {a * s * s, s * s, s, 1}; }
  [[nodiscard]] Dims scores_transposed_strides() const { return {a * s * s, s * s, 1, s}; }
  [[nodiscard]] Dims rows() const { return {b, a, s, 1}; }
  [[nodiscard]] Dims rows_strides() const { return {a * s, s, 1, 1}; }
};

Tensor scores_tensor(CudnnGraph& graph, const Layout& at, cudnnDataType_t type = kFloat) {
  return graph.virtual_tensor(type, at.scores(), at.scores_strides());
}

Tensor rows_tensor(CudnnGraph& graph, const Layout& at) {
  return graph.virtual_tensor(kFloat, at.rows(), at.rows_strides());
}

// Keeps a score where its row is at or after its column.
Tensor causal(CudnnGraph& graph, const Layout& at, Tensor scores, Tensor masked) {
  const Tensor row = scores_tensor(graph, at, CUDNN_DATA_INT32);
  const Tensor column = scores_tensor(graph, at, CUDNN_DATA_INT32);
  const Tensor keep = scores_tensor(graph, at, CUDNN_DATA_BOOLEAN);
  const Tensor selected = scores_tensor(graph, at);
  graph.index_of_axis(scores, 2, row);
  graph.index_of_axis(scores, 3, column);
  graph.pointwise(CUDNN_POINTWISE_CMP_GE, row, column, keep, CUDNN_DATA_BOOLEAN);
  graph.select(scores, masked, keep, selected);
  return selected;
}

}  // namespace

AttentionForwardGraph attention_forward_graph(const AttentionCall& call) {
  const Layout at(call);
  AttentionForwardGraph made;
  CudnnGraph& graph = made.graph;
  made.q = graph.input(kBf16, {at.b, at.a, at.s, at.d}, at.in_qkv());
  made.k = graph.input(kBf16, {at.b, at.k, at.d, at.s}, at.in_qkv_transposed());
  made.v = graph.input(kBf16, {at.b, at.k, at.s, at.d}, at.in_qkv());
  made.scale = graph.scalar();
  made.masked = graph.scalar();
  made.y = graph.input(kBf16, {at.b, at.a, at.s, at.d}, at.in_output());
  made.lse = graph.input(kFloat, at.rows(), at.rows_strides());

  const Tensor products = scores_tensor(graph, at);
  graph.matmul(made.q, made.k, products);
  const Tensor scaled = scores_tensor(graph, at);
  graph.pointwise(CUDNN_POINTWISE_MUL, products, made.scale, scaled);
  const Tensor scores = causal(graph, at, scaled, made.masked);

  const Tensor maximum = rows_tensor(graph, at);
  graph.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, maximum);
  const Tensor shifted = scores_tensor(graph, at);
  graph.pointwise(CUDNN_POINTWISE_SUB, scores, maximum, shifted);
  const Tensor exponentials = scores_tensor(graph, at);
  graph.pointwise(CUDNN_POINTWISE_EXP, shifted, exponentials);
  const Tensor sum = rows_tensor(graph, at);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, sum);
  const Tensor logarithm = rows_tensor(graph, at);
  graph.pointwise(CUDNN_POINTWISE_LOG, sum, logarithm);
  graph.pointwise(CUDNN_POINTWISE_ADD, maximum, logarithm, made.lse);
  const Tensor probabilities = scores_tensor(graph, at, kBf16);
  graph.pointwise(CUDNN_POINTWISE_DIV, exponentials, sum, probabilities);
  graph.matmul(probabilities, made.v, made.y);
  return made;
}

namespace {

// dk or dv: the transposed scores times a per-query-head matrix, summed over the heads that share a
// key head.
void key_gradient(CudnnGraph& graph, const Layout& at, Tensor transposed, Tensor right,
                  Tensor gradient) {
  if (at.a == at.k) {
    graph.matmul(transposed, right, gradient);
    return;
  }
  const Tensor every_head = graph.virtual_tensor(kBf16, {at.b, at.a, at.s, at.d},
                                                 {at.a * at.s * at.d, at.s * at.d, at.d, 1});
  graph.matmul(transposed, right, every_head);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, every_head, gradient);
}

Tensor transposed_scores(CudnnGraph& graph, const Layout& at, Tensor scores) {
  const Tensor transposed =
      graph.virtual_tensor(kBf16, at.scores(), at.scores_transposed_strides());
  graph.reshape(scores, transposed);
  return transposed;
}

}  // namespace

AttentionBackwardGraph attention_backward_graph(const AttentionCall& call) {
  const Layout at(call);
  AttentionBackwardGraph made;
  CudnnGraph& graph = made.graph;
  const Dims queries = {at.b, at.a, at.s, at.d};
  const Dims keys = {at.b, at.k, at.s, at.d};
  const Dims keys_transposed = {at.b, at.k, at.d, at.s};
  made.q = graph.input(kBf16, queries, at.in_qkv());
  made.k = graph.input(kBf16, keys_transposed, at.in_qkv_transposed());
  made.v = graph.input(kBf16, keys_transposed, at.in_qkv_transposed());
  made.y = graph.input(kBf16, queries, at.in_output());
  made.dy = graph.input(kBf16, queries, at.in_output());
  made.lse = graph.input(kFloat, at.rows(), at.rows_strides());
  made.dq = graph.input(kBf16, queries, at.in_qkv());
  made.dk = graph.input(kBf16, keys, at.in_qkv());
  made.dv = graph.input(kBf16, keys, at.in_qkv());
  made.scale = graph.scalar();
  made.masked = graph.scalar();
  made.one = graph.scalar();
  made.softmax_sum = graph.input(kFloat, at.rows(), at.rows_strides());
  made.dq_sum = graph.input(kFloat, queries, {at.a * at.s * at.d, at.s * at.d, at.d, 1});

  // softmax_sum = rowsum(dy * y)
  const Tensor weighted =
      graph.virtual_tensor(kFloat, queries, {at.a * at.s * at.d, at.s * at.d, at.a * at.d, 1});
  graph.pointwise(CUDNN_POINTWISE_MUL, made.dy, made.y, weighted);
  const Tensor row_sum = rows_tensor(graph, at);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, weighted, row_sum);
  graph.pointwise(CUDNN_POINTWISE_MUL, row_sum, made.one, made.softmax_sum);

  // probabilities again, from the statistics; dv
  const Tensor products = scores_tensor(graph, at);
  graph.matmul(made.q, made.k, products);
  const Tensor scaled = scores_tensor(graph, at);
  graph.pointwise(CUDNN_POINTWISE_MUL, products, made.scale, scaled);
  const Tensor shifted = scores_tensor(graph, at);
  graph.pointwise(CUDNN_POINTWISE_SUB, scaled, made.lse, shifted);
  const Tensor scores = causal(graph, at, shifted, made.masked);
  const Tensor probabilities = scores_tensor(graph, at);
  graph.pointwise(CUDNN_POINTWISE_EXP, scores, probabilities);
  key_gradient(graph, at, transposed_scores(graph, at, probabilities), made.dy, made.dv);

  // dscores = (dy v' - softmax_sum) * probabilities * scale; dk, dq
  const Tensor dprobabilities = scores_tensor(graph, at);
  graph.matmul(made.dy, made.v, dprobabilities);
  const Tensor centred = scores_tensor(graph, at);
  graph.pointwise(CUDNN_POINTWISE_SUB, dprobabilities, made.softmax_sum, centred);
  const Tensor unscaled = scores_tensor(graph, at);
  graph.pointwise(CUDNN_POINTWISE_MUL, centred, probabilities, unscaled);
  const Tensor dscores = scores_tensor(graph, at);
  graph.pointwise(CUDNN_POINTWISE_MUL, unscaled, made.scale, dscores);
  key_gradient(graph, at, transposed_scores(graph, at, dscores), made.q, made.dk);
  const Tensor k_rows = graph.virtual_tensor(kBf16, keys, at.in_qkv());
  graph.reshape(made.k, k_rows);
  graph.matmul(dscores, k_rows, made.dq_sum);
  graph.pointwise(CUDNN_POINTWISE_IDENTITY, made.dq_sum, made.dq);
  return made;
}

}  // namespace trireme::runtime::cuda
