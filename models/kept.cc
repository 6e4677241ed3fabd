// What backward needs and forward therefore keeps, op by op. Counts are per token of this rank and
// scaled at the end. Sources: Korthikanti et al. 2022, section 4 (classic Megatron); Megatron-Core
// with Transformer Engine 2.x, where a linear layer fused with its norm keeps the norm's input and
// output; PyTorch 2.11 eager and compiled blocks.
#include <algorithm>
#include <cmath>

#include "models/layer_share.h"
#include "models/work.h"

namespace trireme::models {

namespace {

constexpr double kElement = 2.0;  // bf16 or fp16

// Collects items whose bytes are given per token; `tokens` is what this rank works on.
class KeptList {
 public:
  explicit KeptList(double tokens) : tokens_(tokens) {}
  void add(Kept kept, double bytes_per_token) {
    if (bytes_per_token > 0) {
      items_.push_back({kept, Bytes(static_cast<std::int64_t>(bytes_per_token * tokens_))});
    }
  }
  std::vector<KeptItem> take() { return std::move(items_); }

 private:
  double tokens_;
  std::vector<KeptItem> items_;
};

struct Scale {
  double tensor = 1;    // tensors split over heads or the inner dimension
  double sequence = 1;  // tensors split over tokens when sequence parallelism is on
  bool torch = false;   // PyTorch's own modules: linear inputs are gathered copies
  bool compiled = false;
  bool classic = false;
  bool own = false;  // this project's runtime
};

Scale scale_of(const Shard& shard, Implementation implementation) {
  Scale scale;
  scale.tensor = 1.0 / static_cast<double>(shard.tensor_parallel);
  scale.sequence = shard.sequence_parallel ? scale.tensor : 1.0;
  scale.torch = implementation == Implementation::kEagerTorch ||
                implementation == Implementation::kCompiledTorch;
  scale.compiled = implementation == Implementation::kCompiledTorch;
  scale.classic = implementation == Implementation::kClassicMegatron;
  scale.own = implementation == Implementation::kTrireme;
  return scale;
}

// A norm and the input of the linear layers behind it. With DTensor sequence parallelism the
// gathered input is what the linear layer keeps, and the norm runs decomposed: its fp32 input and
// fp32 result stay (measured on PyTorch 2.11).
struct NormTensors {
  Kept input, output, fp32;
};
void keep_norm(const Transformer& model, const Shard& shard, const Scale& scale,
               const NormTensors& norm, KeptList& kept) {
  const auto hidden = static_cast<double>(model.hidden);
  kept.add(norm.input, kElement * hidden * scale.sequence);
  if (scale.torch && shard.sequence_parallel) {
    kept.add(norm.output, kElement * hidden);
    kept.add(norm.fp32, 8 * hidden * scale.sequence);
  } else {
    kept.add(norm.output, kElement * hidden * scale.sequence);
  }
}

// Of a parallel block this project's runtime has its input once, and the output of a shared norm.
void keep_mlp_norm(const Transformer& model, const Shard& shard, const Scale& scale,
                   KeptList& kept) {
  if (!scale.own || !model.parallel_block) {
    keep_norm(model, shard, scale, {Kept::kMlpNormInput, Kept::kMlpNormOutput, Kept::kMlpNormFp32},
              kept);
  } else if (model.norms_per_layer > 1) {
    kept.add(Kept::kMlpNormOutput, kElement * static_cast<double>(model.hidden) * scale.sequence);
  }
}

void keep_scores(const Transformer& model, const Shard& shard, const Scale& scale, double dropout,
                 KeptList& kept) {
  const auto heads = static_cast<double>(model.heads) * scale.tensor;
  if (shard.attention == AttentionKernel::kFlash) {
    kept.add(Kept::kSoftmaxStatistics, 4 * heads);
    return;
  }
  const double scores = heads * static_cast<double>(shard.sequence);
  kept.add(Kept::kSoftmaxOutput, kElement * scores);
  if (dropout > 0) {
    kept.add(Kept::kSoftmaxDropoutMask, scores);
    kept.add(Kept::kSoftmaxDropped, kElement * scores);
  }
}

void keep_latent_attention(const Transformer& model, const Shard& shard, const Scale& scale,
                           double dropout, KeptList& kept) {
  const LatentAttention& latent = *model.latent;
  const auto heads = static_cast<double>(model.heads) * scale.tensor;
  const auto qk = static_cast<double>(latent.qk_nope + latent.qk_rope);
  kept.add(Kept::kQueryLatent, 2 * kElement * static_cast<double>(latent.q_lora) * scale.sequence);
  kept.add(Kept::kKeyValueLatent,
           kElement * static_cast<double>(2 * latent.kv_lora + latent.qk_rope) * scale.sequence);
  kept.add(Kept::kQuery, kElement * heads * qk);
  kept.add(Kept::kKey, kElement * heads * qk);
  kept.add(Kept::kValue, kElement * heads * static_cast<double>(latent.v_head));
  keep_scores(model, shard, scale, dropout, kept);
  kept.add(Kept::kAttentionOutput, kElement * heads * static_cast<double>(latent.v_head));
}

void keep_attention(const Transformer& model, const Shard& shard, const Scale& scale,
                    double dropout, KeptList& kept) {
  keep_norm(model, shard, scale,
            {Kept::kAttentionNormInput, Kept::kAttentionNormOutput, Kept::kNormFp32}, kept);
  if (model.latent) {
    keep_latent_attention(model, shard, scale, dropout, kept);
  } else {
    const double query = static_cast<double>(model.heads * model.head_dim) * scale.tensor;
    const double key = static_cast<double>(model.kv_heads * model.head_dim) * scale.tensor;
    // Norms of heads read what the product wrote, which this project's runtime keeps whole.
    const double copies = scale.own && model.qk_norm ? 2 : 1;
    kept.add(Kept::kQuery, copies * kElement * query);
    kept.add(Kept::kKey, copies * kElement * key);
    kept.add(Kept::kValue, copies * kElement * key);
    keep_scores(model, shard, scale, dropout, kept);
    kept.add(Kept::kAttentionOutput, kElement * query);
    // PyTorch's flash attention writes heads first, so the projection's input is a copy;
    // Transformer Engine's context parallel attention keeps its own output too.
    if (scale.torch || shard.context_parallel > 1) {
      kept.add(Kept::kAttentionOutputCopy, kElement * query);
    }
  }
  if (dropout > 0) {
    kept.add(Kept::kAttentionDropoutMask, static_cast<double>(model.hidden) * scale.sequence);
  }
}

// Between the two MLP products, per token and inner element: what the activation function keeps,
// and the second product's input.
struct ActivationTensors {
  Kept input, gate, output;
};
void keep_activation(const Transformer& model, const Scale& scale, double inner,
                     const ActivationTensors& tensors, KeptList& kept) {
  kept.add(tensors.input, (model.gated_mlp ? 2 : 1) * kElement * inner);
  // SiLU outside a fused kernel writes its result before the product with the up half; a compiler
  // recomputes it.
  if (((scale.torch && !scale.compiled) || scale.classic) && model.gated_mlp) {
    kept.add(tensors.gate, kElement * inner);
  }
  kept.add(tensors.output, kElement * inner);
}

void keep_experts(const Transformer& model, const Shard& shard, const Scale& scale,
                  KeptList& kept) {
  const MixtureOfExperts& moe = *model.moe;
  const auto expert_tensor =
      static_cast<double>(std::max<std::int64_t>(1, shard.expert_tensor_parallel));
  const double experts =
      static_cast<double>(moe.experts) / static_cast<double>(shard.expert_parallel);
  const bool uneven = is_unevenly_loaded(moe, shard.expert_parallel, shard.even_routing);
  const double capacity = moe.capacity_factor > 0 ? moe.capacity_factor
                          : scale.own             ? shard.expert_room
                          : uneven && shard.unbalanced_router
                              ? same_experts_load(moe.experts_per_token, shard.expert_parallel)
                          : uneven ? fullest_expert_load(experts)
                                   : 1.0;
  // Tokens that this rank's experts see: its own share, top-k times, gathered over the expert
  // tensor group.
  const double routed = static_cast<double>(moe.experts_per_token) * capacity * scale.sequence;
  const auto hidden = static_cast<double>(model.hidden);
  kept.add(Kept::kRouter, 8 * static_cast<double>(moe.experts) * scale.sequence);
  // The own runtime keeps what comes back too: the weights' gradients need it. PyTorch weighs
  // it by small products, which keep it in order and, in part, in fp32: of two torchtitan runs on
  // H200 3.2 and 6.4 GiB were not accounted for, 1.5 times what comes back. A compiler has no part
  // in it: torchtitan compiles router, experts and shared expert, not what stands between them
  // (v0.2.2 models/llama4/infra/parallelize.py; before, hooks of FSDP broke its graphs there).
  const double copies = scale.own ? 1.0 : scale.torch ? 1.5 : 0.0;
  const double returned = copies * static_cast<double>(moe.experts_per_token) * scale.sequence;
  const double each = kElement * hidden * expert_tensor;
  if (scale.own) {
    kept.add(Kept::kExpertInput, each * routed);
    kept.add(Kept::kExpertOutput, each * returned);
  } else {
    kept.add(Kept::kExpertInput, each * (routed + returned));
  }
  keep_activation(model, scale, static_cast<double>(moe.expert_ffn) * routed,
                  {Kept::kExpertActivationInput, Kept::kExpertGateOutput, Kept::kExpertDownInput},
                  kept);
  if (moe.shared_ffn > 0) {
    // The shared expert gathers its own copy of the input.
    keep_activation(model, scale, static_cast<double>(moe.shared_ffn) * scale.tensor,
                    {Kept::kSharedActivationInput, Kept::kSharedGateOutput, Kept::kSharedDownInput},
                    kept);
  }
}

}  // namespace

std::vector<KeptItem> kept_activations(const Transformer& model, std::int64_t layer,
                                       const Shard& shard, Implementation implementation,
                                       double dropout) {
  const double tokens = static_cast<double>(shard.micro_batch) *
                        static_cast<double>(shard.sequence) /
                        static_cast<double>(shard.context_parallel);
  const Scale scale = scale_of(shard, implementation);
  KeptList kept(tokens);
  if (layer >= model.layers) {
    // Both streams before their norms, and the pair of them that the projection reads.
    kept.add(Kept::kTokenStreams,
             4 * kElement * static_cast<double>(model.hidden) * scale.sequence);
  }
  keep_attention(model, shard, scale, dropout, kept);
  keep_mlp_norm(model, shard, scale, kept);
  if (scale.own && model.norms_per_layer > 2) {  // norms behind the halves read their outputs
    kept.add(Kept::kMlpNormInput, static_cast<double>(model.norms_per_layer - 2) * kElement *
                                      static_cast<double>(model.hidden) * scale.sequence);
  }
  if (is_moe_layer(model, layer)) {
    keep_experts(model, shard, scale, kept);
  } else {
    keep_activation(model, scale, static_cast<double>(model.ffn) * scale.tensor,
                    {Kept::kMlpActivationInput, Kept::kMlpGateOutput, Kept::kMlpDownInput}, kept);
  }
  if (dropout > 0) {
    kept.add(Kept::kMlpDropoutMask, static_cast<double>(model.hidden) * scale.sequence);
  }
  return kept.take();
}

}  // namespace trireme::models
