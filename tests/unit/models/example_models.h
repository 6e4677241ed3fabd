// Shapes that several tests of this room share.
#pragma once

#include <cstdint>

#include "models/transformer.h"

namespace trireme::models {

// GPT: biases, LayerNorm, learned positions, tied embeddings, f = 4h.
inline Transformer gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                       std::int64_t vocab, std::int64_t sequence) {
  Transformer model;
  model.name = "gpt";
  model.layers = layers;
  model.hidden = hidden;
  model.heads = model.kv_heads = heads;
  model.head_dim = hidden / heads;
  model.ffn = 4 * hidden;
  model.vocab = vocab;
  model.max_sequence = model.position_rows = sequence;
  model.position = Position::kLearned;
  model.norm = Norm::kLayerNorm;
  model.gated_mlp = false;
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = true;
  model.tied_embeddings = true;
  return model;
}

inline Transformer llama(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                         std::int64_t kv_heads, std::int64_t ffn, std::int64_t vocab) {
  Transformer model;
  model.name = "llama";
  model.layers = layers;
  model.hidden = hidden;
  model.heads = heads;
  model.kv_heads = kv_heads;
  model.head_dim = hidden / heads;
  model.ffn = ffn;
  model.vocab = vocab;
  model.max_sequence = 8192;
  return model;
}

inline Transformer llama3_8b() {
  return llama(32, 4096, 32, 8, 14336, 128256);
}
inline Transformer llama3_70b() {
  return llama(80, 8192, 64, 8, 28672, 128256);
}
inline Transformer llama3_405b() {
  return llama(126, 16384, 128, 8, 53248, 128256);
}

inline Transformer mixtral_8x7b() {
  Transformer model = llama(32, 4096, 32, 8, 14336, 32000);
  model.moe = MixtureOfExperts{.experts = 8, .experts_per_token = 2, .expert_ffn = 14336};
  return model;
}

inline Transformer deepseek_v3() {
  Transformer model = llama(61, 7168, 128, 128, 18432, 129280);
  model.head_dim = 192;
  model.latent =
      LatentAttention{.q_lora = 1536, .kv_lora = 512, .qk_nope = 128, .qk_rope = 64, .v_head = 128};
  model.moe = MixtureOfExperts{.experts = 256,
                               .experts_per_token = 8,
                               .expert_ffn = 2048,
                               .shared_ffn = 2048,
                               .router_bias = true};
  model.moe_layers.assign(61, true);
  model.moe_layers[0] = model.moe_layers[1] = model.moe_layers[2] = false;
  model.multi_token_layers = 1;
  return model;
}

}  // namespace trireme::models
