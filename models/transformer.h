// What is trained: one description that covers the decoder families we plan for. Plain data; counts
// are of elements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/function.h"

namespace trireme::models {

enum class Norm { kLayerNorm, kRmsNorm };
enum class Position { kRotary, kLearned, kAlibi, kNone };

// Multi-head latent attention (DeepSeek): low-rank projections; q_lora 0 = q straight from the
// hidden state.
struct LatentAttention {
  std::int64_t q_lora = 0;
  std::int64_t kv_lora = 0;
  std::int64_t qk_nope = 0;
  std::int64_t qk_rope = 0;
  std::int64_t v_head = 0;
  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

struct MixtureOfExperts {
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t expert_ffn = 0;   // inner size of one routed expert
  std::int64_t shared_ffn = 0;   // inner size of all shared experts together; 0 = none
  bool shared_gate = false;      // Qwen-MoE: a sigmoid gate (h parameters) on the shared expert
  bool router_bias = false;      // one bias an expert (DeepSeek V3, gpt-oss)
  bool expert_bias = false;      // gpt-oss: biases inside experts
  double capacity_factor = 0.0;  // 0 = dropless
  friend bool operator==(const MixtureOfExperts&, const MixtureOfExperts&) = default;
};

struct Transformer {
  std::string name;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;  // inner size of the dense MLP
  std::int64_t vocab = 0;
  std::int64_t embedding_dim = 0;  // 0 = hidden (OPT-350m projects a smaller embedding)
  std::int64_t max_sequence =
      0;  // the model's longest sequence; also the rows of learned positions
  std::int64_t position_rows = 0;  // rows of the learned position table (OPT has 2 more)
  Position position = Position::kRotary;
  Norm norm = Norm::kRmsNorm;
  bool gated_mlp = true;  // three MLP matrices (SwiGLU, GeGLU) instead of two
  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;            // Qwen3, Gemma3: norms of head_dim on q and k
  bool qk_norm_all_heads = false;  // with qk_norm (OLMo 2): norms of all heads' width instead
  bool tied_embeddings = false;
  bool attention_sinks = false;      // gpt-oss: one parameter a head
  bool embedding_norm = false;       // BLOOM
  bool final_norm = true;            // OPT-350m has none
  bool norm_bias = true;             // LayerNorm only: bias vectors (MPT has none)
  bool head_bias = false;            // Phi-2, GPT-J: the output matrix has a bias
  std::int64_t norms_per_layer = 2;  // Gemma 2/3 have 4; Falcon-7B's parallel block 1
  bool parallel_block = false;       // attention and MLP read one norm (Falcon, GPT-NeoX)
  std::int64_t sliding_window = 0;   // 0 = full attention
  // DeepSeek V3's extra prediction modules (section 2.2), each a layer of the last kind behind two
  // norms and a 2h x h projection, then the shared norm and head with a loss of its own.
  std::int64_t multi_token_layers = 0;
  std::optional<LatentAttention> latent;
  std::optional<MixtureOfExperts> moe;
  std::vector<bool> moe_layers;  // one flag a layer; empty = all dense
  std::vector<bool>
      sliding_layers;  // one flag a layer; empty = sliding_window on all layers when set
  Function function;
  friend bool operator==(const Transformer&, const Transformer&) = default;
};

// One trainable tensor, as the import tests and the sharding arithmetic need it.
struct ParameterTensor {
  std::string name;       // e.g. "attention.q"
  std::int64_t rows = 0;  // dim 0: what FSDP2 shards and pads
  std::int64_t columns = 1;
  std::int64_t copies = 1;      // an expert's tensor: one copy an expert
  bool expert = false;          // belongs to a routed expert
  bool tensor_parallel = true;  // split over the tensor-parallel group (norms, routers, latent
                                // down-projections and biases of row-parallel matrices are not)
};

// The tensors of one layer, in order of use, and those outside the layers. Every count below is a
// sum over these lists.
std::vector<ParameterTensor> layer_tensors(const Transformer& model, std::int64_t layer);
// Token and position tables, the norm after them and the projections of a narrower embedding.
std::vector<ParameterTensor> embedding_tensors(const Transformer& model);
// The output matrix; listed also when it is tied to the token table.
std::vector<ParameterTensor> head_tensors(const Transformer& model);
std::int64_t element_count(const ParameterTensor& tensor);  // with copies

// Layers with those of the extra prediction modules, which are numbered behind the model's own.
std::int64_t trained_layers(const Transformer& model);
// Every trainable parameter, tied ones once; without multi_token_layers.
std::int64_t parameter_count(const Transformer& model);
std::int64_t active_parameter_count(const Transformer& model);  // experts_per_token of the experts
std::int64_t layer_parameter_count(const Transformer& model, std::int64_t layer);
std::int64_t embedding_parameter_count(const Transformer& model);
std::int64_t head_parameter_count(const Transformer& model);  // also when tied (its own copy)
std::int64_t final_norm_parameter_count(const Transformer& model);
// What the extra prediction modules add: each a last-kind layer, a 2h x h projection, three norms.
std::int64_t multi_token_parameter_count(const Transformer& model);
bool is_moe_layer(const Transformer& model, std::int64_t layer);
std::int64_t moe_layer_count(const Transformer& model);
// The attention window of a layer in tokens; 0 = the whole sequence.
std::int64_t attention_window(const Transformer& model, std::int64_t layer);

// Throws core Error naming `where` when the dimensions are impossible (zero, negative, heads %
// kv_heads, …).
void check_transformer(const Transformer& model, const std::string& where);

}  // namespace trireme::models
