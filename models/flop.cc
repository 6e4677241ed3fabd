// FLOP of a matrix product, of attention, and of the whole model for one token.
#include "models/work.h"

namespace trireme::models {
namespace {

// Keys that a query sees on average.
double keys_per_query(double keys, double window, bool causal) {
  if (!causal) {
    return keys;
  }
  // Continuous form of the mean of min(position, window); Megatron writes s/2, not (s+1)/2.
  const double seen = window > 0.0 && window < keys ? window : keys;
  return seen - seen * seen / (2.0 * keys);
}

double width_per_head(const Transformer& model) {
  if (model.latent) {
    return static_cast<double>(model.latent->qk_nope + model.latent->qk_rope +
                               model.latent->v_head);
  }
  return static_cast<double>(2 * model.head_dim);
}

// Weights of the matrices that a token meets in one layer; not the router's.
double matrix_weights(const Transformer& model, std::int64_t layer) {
  double total = 0.0;
  for (const ParameterTensor& tensor : layer_tensors(model, layer)) {
    if (tensor.columns == 1 || tensor.name == "router" ||
        tensor.name == "shared_expert.gate_weight") {
      continue;
    }
    const std::int64_t copies = tensor.expert ? model.moe->experts_per_token : tensor.copies;
    total += static_cast<double>(tensor.rows * tensor.columns * copies);
  }
  return total;
}

// Scores of one layer for one token, forward.
double score_flop(const Transformer& model, std::int64_t layer, std::int64_t sequence,
                  FlopConvention convention) {
  const bool half = convention == FlopConvention::kHalfCausal;
  const auto window = static_cast<double>(attention_window(model, layer));
  return 2.0 * static_cast<double>(model.heads) * width_per_head(model) *
         keys_per_query(static_cast<double>(sequence), window, half);
}

Flop half_causal_flop(const Transformer& model, std::int64_t sequence) {
  const std::int64_t width = model.embedding_dim > 0 ? model.embedding_dim : model.hidden;
  double weights = static_cast<double>(model.vocab * width);
  if (width != model.hidden) {
    weights += static_cast<double>(2 * width * model.hidden);
  }
  double scores = 0.0;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    weights += matrix_weights(model, layer);
    scores += score_flop(model, layer, sequence, FlopConvention::kHalfCausal);
  }
  return Flop(3.0 * (2.0 * weights + scores));
}

Flop full_attention_flop(const Transformer& model, std::int64_t sequence) {
  std::int64_t parameters = active_parameter_count(model) - embedding_parameter_count(model);
  if (model.tied_embeddings) {
    parameters += head_parameter_count(model);
  }
  const double scores = 6.0 * static_cast<double>(model.layers * model.heads) *
                        width_per_head(model) * static_cast<double>(sequence);
  return Flop(6.0 * static_cast<double>(parameters) + scores);
}

}  // namespace

Flop flop_of(const Matmul& matmul) {
  return Flop(2.0 * static_cast<double>(matmul.m) * static_cast<double>(matmul.n) *
              static_cast<double>(matmul.k) * static_cast<double>(matmul.count));
}

Flop flop_of(const AttentionWork& attention, bool half_causal) {
  const double keys =
      keys_per_query(static_cast<double>(attention.key_length),
                     static_cast<double>(attention.window), half_causal && attention.causal);
  return Flop(2.0 * static_cast<double>(attention.batch * attention.heads) *
              static_cast<double>(attention.query_length) * keys *
              static_cast<double>(attention.qk_dim + attention.v_dim));
}

Flop model_flop_per_token(const Transformer& model, std::int64_t sequence,
                          FlopConvention convention) {
  switch (convention) {
    case FlopConvention::kHalfCausal:
      return half_causal_flop(model, sequence);
    case FlopConvention::kFullAttention:
      return full_attention_flop(model, sequence);
  }
  return Flop(0.0);
}

Flop multi_token_flop_per_token(const Transformer& model, std::int64_t sequence,
                                FlopConvention convention) {
  if (model.multi_token_layers == 0) {
    return Flop(0.0);
  }
  const std::int64_t last = model.layers - 1;
  const auto hidden = static_cast<double>(model.hidden);
  const double weights = matrix_weights(model, last) + 2.0 * hidden * hidden +
                         static_cast<double>(model.vocab) * hidden;
  const double module = 3.0 * (2.0 * weights + score_flop(model, last, sequence, convention));
  return Flop(static_cast<double>(model.multi_token_layers) * module);
}

}  // namespace trireme::models
