// The work of the ends: the embedding, the head with its loss, and the projection before an extra
// prediction module's layer.
#include <utility>

#include "models/work_list.h"

namespace trireme::models {

LayerWork WorkList::embedding() {
  const std::int64_t width = model_.embedding_dim > 0 ? model_.embedding_dim : model_.hidden;
  const std::int64_t table = divide_up(model_.vocab, shard_.tensor_parallel) * width;
  const bool own = kernels_.implementation == Implementation::kTrireme;
  // This project's kernel adds into the fp32 gradient and masks rows of other ranks itself.
  pass(Part::kEmbedding, share_.tokens * width,
       own ? PassCost{4.0, 10.0, 1, 1} : PassCost{4.0, 4.0, 1, 2},
       {Kernel::kEmbeddingForward, Kernel::kEmbeddingBackward});
  // Backward fills a gradient of the whole table with zeros first.
  pass(Part::kEmbeddingGradient, table, {0.0, own ? 4.0 : 2.0, 0, own ? 0 : 1});
  if (shard_.tensor_parallel > 1 && !own) {
    pass(Part::kVocabularyMask, share_.tokens * width, {2.0, 0.0, 3, 0});
  }
  if (width != model_.hidden) {
    linear(Part::kProjectIn, share_.tokens, model_.hidden, width);
  }
  if (model_.position == Position::kLearned) {
    pass(Part::kPosition, share_.tokens * model_.hidden, {6.0, 2.0, 1, 1});
  }
  const std::int64_t stream = share_.stream_tokens * model_.hidden;
  if (model_.embedding_norm) {
    norm(Part::kEmbeddingNorm, stream);
  }
  if (kernels_.dropout > 0.0) {
    pass(Part::kEmbeddingDropout, stream, dropout_cost());
  }
  return std::move(work_);
}

void WorkList::add_head() {
  const std::int64_t width = model_.embedding_dim > 0 ? model_.embedding_dim : model_.hidden;
  const std::int64_t vocab = divide_up(model_.vocab, shard_.tensor_parallel);
  if (model_.final_norm) {
    norm(Part::kFinalNorm, share_.stream_tokens * model_.hidden);
  }
  if (width != model_.hidden) {
    linear(Part::kProjectOut, share_.tokens, width, model_.hidden);
  }
  linear(Part::kHead, share_.tokens, vocab, width);
  pass(Part::kCrossEntropy, share_.tokens * vocab, cross_entropy_cost(kernels_),
       {Kernel::kLogitStatistics, Kernel::kCrossEntropyBackward});
}

LayerWork WorkList::head() {
  for (std::int64_t module = 0; module <= model_.multi_token_layers; ++module) {
    add_head();
  }
  return std::move(work_);
}

void WorkList::add_token_projection() {
  const std::int64_t stream = share_.stream_tokens * model_.hidden;
  norm(Part::kTokenNorm, stream);
  norm(Part::kTokenNorm, stream);
  pass(Part::kConcatenate, 2 * stream, {4.0, 4.0, 1, 1});
  linear(Part::kTokenProjection, share_.tokens, divide_up(model_.hidden, shard_.tensor_parallel),
         2 * model_.hidden);
}

LayerWork embedding_work(const Transformer& model, const Shard& shard, const Kernels& kernels) {
  return WorkList(model, shard, kernels).embedding();
}

LayerWork head_work(const Transformer& model, const Shard& shard, const Kernels& kernels) {
  return WorkList(model, shard, kernels).head();
}

}  // namespace trireme::models
