#include "runtime/cuda/attention_graph.h"

namespace trireme::runtime::cuda {
namespace {

using Tensor = CudnnGraph::Tensor;
constexpr cudnnDataType_t kBf16 = CUDNN_DATA_BFLOAT16;
constexpr cudnnDataType_t kFloat = CUDNN_DATA_FLOAT;

// Shapes and strides of one piece; cuDNN's order is batch, head, row, column.
struct Layout {
  const AttentionPiece& p;
  std::int64_t b, a, k, s, n, d, v;  // s queries, n keys of d elements, values of v

  explicit Layout(const AttentionPiece& piece)
      : p(piece),
        b(piece.batch),
        a(piece.heads),
        k(piece.kv_heads),
        s(piece.queries),
        n(piece.keys),
        d(piece.head_size),
        v(piece.value_size) {}
  [[nodiscard]] Dims queries() const { return {b, a, s, d}; }
  [[nodiscard]] Dims keys() const { return {b, k, n, d}; }
  [[nodiscard]] Dims keys_transposed() const { return {b, k, d, n}; }
  [[nodiscard]] Dims values() const { return {b, k, n, v}; }
  [[nodiscard]] Dims values_transposed() const { return {b, k, v, n}; }
  [[nodiscard]] Dims output() const { return {b, a, s, v}; }
  [[nodiscard]] Dims in_q() const { return {p.q_batch, d, p.q_row, 1}; }
  [[nodiscard]] Dims in_kv() const { return {p.kv_batch, d, p.kv_row, 1}; }
  [[nodiscard]] Dims in_kv_transposed() const { return {p.kv_batch, d, 1, p.kv_row}; }
  [[nodiscard]] Dims in_values() const { return {p.kv_batch, v, p.kv_row, 1}; }
  [[nodiscard]] Dims in_values_transposed() const { return {p.kv_batch, v, 1, p.kv_row}; }
  [[nodiscard]] Dims in_output() const { return {p.y_batch, v, p.y_row, 1}; }
  [[nodiscard]] Dims in_dq() const { return {p.dq_batch, d, p.dq_row, 1}; }
  [[nodiscard]] Dims in_dkv() const { return {p.dkv_batch, d, p.dkv_row, 1}; }
  [[nodiscard]] Dims in_dvalues() const { return {p.dkv_batch, v, p.dkv_row, 1}; }
  [[nodiscard]] Dims scores() const { return {b, a, s, n}; }
  [[nodiscard]] Dims scores_strides() const { return {a * s * n, s * n, n, 1}; }
  [[nodiscard]] Dims scores_transposed() const { return {b, a, n, s}; }
  [[nodiscard]] Dims scores_transposed_strides() const { return {a * s * n, s * n, 1, n}; }
  [[nodiscard]] Dims rows() const { return {b, a, s, 1}; }
  [[nodiscard]] Dims rows_strides() const { return {a * s, s, 1, 1}; }
  [[nodiscard]] Dims in_statistics() const { return {a * p.lse_head, p.lse_head, 1, 1}; }
};

Tensor scores_tensor(CudnnGraph& graph, const Layout& at, cudnnDataType_t type = kFloat) {
  return graph.virtual_tensor(type, at.scores(), at.scores_strides());
}

Tensor rows_tensor(CudnnGraph& graph, const Layout& at) {
  return graph.virtual_tensor(kFloat, at.rows(), at.rows_strides());
}

// Under a causal mask, keeps a score where its row is at or after its column.
Tensor causal(CudnnGraph& graph, const Layout& at, Tensor scores, Tensor masked) {
  if (!at.p.causal) {
    return scores;
  }
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

AttentionPiece piece_of(const AttentionCall& call) {
  const std::int64_t width =
      (call.heads + call.kv_heads) * call.head_size + call.kv_heads * call.values();
  const std::int64_t out = call.heads * call.values();
  return {.batch = call.batch,
          .queries = call.sequence,
          .keys = call.sequence,
          .heads = call.heads,
          .kv_heads = call.kv_heads,
          .head_size = call.head_size,
          .value_size = call.values(),
          .causal = true,
          .q_row = width,
          .q_batch = call.sequence * width,
          .kv_row = width,
          .kv_batch = call.sequence * width,
          .y_row = out,
          .y_batch = call.sequence * out,
          .lse_head = call.sequence,
          .dq_row = width,
          .dq_batch = call.sequence * width,
          .dkv_row = width,
          .dkv_batch = call.sequence * width};
}

AttentionForwardGraph attention_forward_graph(const AttentionPiece& piece) {
  const Layout at(piece);
  AttentionForwardGraph made;
  CudnnGraph& graph = made.graph;
  made.q = graph.input(kBf16, at.queries(), at.in_q());
  made.k = graph.input(kBf16, at.keys_transposed(), at.in_kv_transposed());
  made.v = graph.input(kBf16, at.values(), at.in_values());
  made.scale = graph.scalar();
  if (piece.causal) {
    made.masked = graph.scalar();
  }
  made.y = graph.input(kBf16, at.output(), at.in_output());
  made.lse = graph.input(kFloat, at.rows(), at.in_statistics());

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
void key_gradient(CudnnGraph& graph, const Layout& at, std::int64_t size, Tensor transposed,
                  Tensor right, Tensor gradient) {
  if (at.a == at.k) {
    graph.matmul(transposed, right, gradient);
    return;
  }
  const Tensor every_head = graph.virtual_tensor(kBf16, {at.b, at.a, at.n, size},
                                                 {at.a * at.n * size, at.n * size, size, 1});
  graph.matmul(transposed, right, every_head);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, every_head, gradient);
}

Tensor transposed_scores(CudnnGraph& graph, const Layout& at, Tensor scores) {
  const Tensor transposed =
      graph.virtual_tensor(kBf16, at.scores_transposed(), at.scores_transposed_strides());
  graph.reshape(scores, transposed);
  return transposed;
}

}  // namespace

AttentionBackwardGraph attention_backward_graph(const AttentionPiece& piece) {
  const Layout at(piece);
  AttentionBackwardGraph made;
  CudnnGraph& graph = made.graph;
  const Dims queries = at.queries();
  made.q = graph.input(kBf16, queries, at.in_q());
  made.k = graph.input(kBf16, at.keys_transposed(), at.in_kv_transposed());
  made.v = graph.input(kBf16, at.values_transposed(), at.in_values_transposed());
  made.y = graph.input(kBf16, at.output(), at.in_output());
  made.dy = graph.input(kBf16, at.output(), at.in_output());
  made.lse = graph.input(kFloat, at.rows(), at.in_statistics());
  made.dq = graph.input(kBf16, queries, at.in_dq());
  made.dk = graph.input(kBf16, at.keys(), at.in_dkv());
  made.dv = graph.input(kBf16, at.values(), at.in_dvalues());
  made.scale = graph.scalar();
  if (piece.causal) {
    made.masked = graph.scalar();
  }
  made.one = graph.scalar();
  made.softmax_sum = graph.input(kFloat, at.rows(), at.rows_strides());
  made.dq_sum = graph.input(kFloat, queries, {at.a * at.s * at.d, at.s * at.d, at.d, 1});

  // softmax_sum = rowsum(dy * y)
  const Tensor weighted =
      graph.virtual_tensor(kFloat, at.output(), {at.a * at.s * at.v, at.s * at.v, at.a * at.v, 1});
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
  key_gradient(graph, at, at.v, transposed_scores(graph, at, probabilities), made.dy, made.dv);

  // dscores = (dy v' - softmax_sum) * probabilities * scale; dk, dq
  const Tensor dprobabilities = scores_tensor(graph, at);
  graph.matmul(made.dy, made.v, dprobabilities);
  const Tensor centred = scores_tensor(graph, at);
  graph.pointwise(CUDNN_POINTWISE_SUB, dprobabilities, made.softmax_sum, centred);
  const Tensor unscaled = scores_tensor(graph, at);
  graph.pointwise(CUDNN_POINTWISE_MUL, centred, probabilities, unscaled);
  const Tensor dscores = scores_tensor(graph, at);
  graph.pointwise(CUDNN_POINTWISE_MUL, unscaled, made.scale, dscores);
  key_gradient(graph, at, at.d, transposed_scores(graph, at, dscores), made.q, made.dk);
  const Tensor k_rows = graph.virtual_tensor(kBf16, at.keys(), at.in_kv());
  graph.reshape(made.k, k_rows);
  graph.matmul(dscores, k_rows, made.dq_sum);
  graph.pointwise(CUDNN_POINTWISE_IDENTITY, made.dq_sum, made.dq);
  return made;
}

}  // namespace trireme::runtime::cuda
