#include "planner/cost/layer_memory.h"

#include <algorithm>
#include <utility>

#include "planner/cost/adapters.h"
#include "planner/cost/own_experts.h"
#include "planner/plan/narrow.h"
#include "planner/plan/sample_lengths.h"
#include "planner/plan/shape.h"

namespace trireme::planner {

namespace {

using models::Implementation;
using topologies::Precision;

// Whether a module's recompute drops it. Source: Megatron-Core's --recompute-modules.
bool dropped_by(std::uint16_t modules, const models::KeptTraits& item, bool engine) {
  return (modules & item.modules) != 0 || (engine && (modules & item.engine_modules) != 0);
}

// Attention's output in the order of tokens beside its own. This project's runtime has it twice
// where heads are exchanged alone.
bool keeps_output_copy(const Job& job) {
  return job.framework.attention_output_copy &&
         (job.framework.implementation != Implementation::kTrireme ||
          context_form(job.framework) == ContextForm::kExchangeHeads);
}

// Whose count of kept tensors applies.
Implementation keeps_as(const Job& job) {
  const bool traced =
      job.framework.traced_graph && job.framework.implementation == Implementation::kEagerTorch;
  return traced ? Implementation::kCompiledTorch : job.framework.implementation;
}

// torchtitan's "op" policy keeps the results of attention, of collectives and of every second
// matrix product: q, v, the first MLP product and the last one, beside the block's input.
double kept_per_op(const Job& job, const Plan& plan, double tokens, bool sparse) {
  const models::Transformer& model = job.model;
  const double tensor = 1.0 / static_cast<double>(plan.tensor);
  const double sequence = plan.sequence_parallel ? tensor : 1.0;
  const auto hidden = static_cast<double>(model.hidden);
  const double query = static_cast<double>(model.heads * model.head_dim) * tensor;
  const double key = static_cast<double>(model.kv_heads * model.head_dim) * tensor;
  if (job.precision == Precision::kFp4) {
    // Its products are operations of their own, which the policy does not know: only attention and
    // the block's input stay.
    return tokens *
           (2 * hidden * sequence + 2 * query + 4 * static_cast<double>(model.heads) * tensor);
  }
  double inner = static_cast<double>(model.ffn) * tensor;
  // The MLP's result is on the list, but nothing in backward reads it: a compiler leaves it out.
  double products = keeps_as(job) == Implementation::kCompiledTorch ? 0 : 1;
  if (sparse) {
    // Grouped products of routed experts are not on the list; the shared expert's are.
    inner = static_cast<double>(model.moe->shared_ffn) * tensor;
    products = model.moe->shared_ffn > 0 ? products : 0;
  }
  const double collectives =
      plan.tensor > 1 && plan.sequence_parallel ? 2 * 2 * hidden * sequence : 0;
  return tokens * (2 * hidden * sequence + 2 * 2 * query + 2 * key +
                   4 * static_cast<double>(model.heads) * tensor + 2 * inner +
                   2 * hidden * products + collectives);
}

// Of a dense MLP in tiles: the share that is there at once.
double part_of_mlp(const Job& job, const Plan& plan, bool sparse) {
  return has_tiled_mlp(job, plan, sparse) ? 1.0 / static_cast<double>(job.framework.loss_chunks)
                                          : 1.0;
}

// Inner elements per token whose gradients are live together with the activation function's.
double inner_elements(const Job& job, const Plan& plan, bool sparse) {
  const double tensor = 1.0 / static_cast<double>(plan.tensor);
  if (!sparse) {
    return static_cast<double>(job.model.ffn) * tensor * part_of_mlp(job, plan, sparse);
  }
  const models::MixtureOfExperts& moe = *job.model.moe;
  // Fine-tuning libraries on PyTorch's own modules run one expert after the other.
  const bool in_turn =
      job.training.has_adapters() && job.framework.implementation == Implementation::kEagerTorch;
  return static_cast<double>(moe.expert_ffn * moe.experts_per_token) /
         (in_turn ? static_cast<double>(moe.experts) : 1.0) *
         (plan.sequence_parallel ? tensor : 1.0);
}

// Flash attention's backward, per token: gradients of its result, of queries, keys and values in 16
// bits, the queries' sum in fp32, and where keys are shared by heads their gradients head by head
// (flash_attn 2 csrc/flash_attn/flash_api.cpp: dq_accum, dk_expanded, dv_expanded).
double attention_transient(const Job& job, const Plan& plan) {
  const models::Transformer& model = job.model;
  const double tensor = 1.0 / static_cast<double>(plan.tensor);
  const double query = static_cast<double>(model.heads * model.head_dim) * tensor;
  const double key = static_cast<double>(model.kv_heads * model.head_dim) * tensor;
  return (2 + 2 + 4) * query + (2 + 2) * key + (model.kv_heads < model.heads ? 4 * query : 0);
}

// Live beyond the kept tensors in the worst operation of the layer's backward. The second product's
// input gradient (2 I) comes first, then the activation function's (4 I when gated), by when the
// second product's input (2 I) is free. A weight gradient that is not accumulated in place is a
// 16-bit tensor of its own.
double backward_transient(const Job& job, const Plan& plan, const LayerParameters& parameters,
                          double tokens, bool sparse, double mlp_kept) {
  const double inner = inner_elements(job, plan, sparse);
  const double width = 2 * static_cast<double>(job.model.hidden) *
                       (plan.sequence_parallel ? 1.0 / static_cast<double>(plan.tensor) : 1.0);
  const double full_width = 2 * static_cast<double>(job.model.hidden);
  const bool accumulates = sums_in_place(job.framework);
  const bool frozen = job.training.has_adapters();
  // A quantised weight exists in 16 bits while its product runs.
  const double weight = (frozen && !is_quantised(job.training.base)) || accumulates
                            ? 0
                            : 2 * parameters.largest_weight;
  const double gated = job.model.gated_mlp ? 4 : 2;
  // The second product's input is free by then, unless the layer is frozen and never kept it.
  const bool never_kept =
      frozen && !is_kept_beside_frozen(job.training, sparse ? models::Kept::kExpertDownInput
                                                            : models::Kept::kMlpDownInput);
  const double activation = tokens * (gated * inner + width + (never_kept ? 2 * inner : 0));
  const double second = tokens * (2 * inner + width + (plan.sequence_parallel ? full_width : 0)) +
                        (job.model.gated_mlp ? weight / 2 : weight);
  const double first = tokens * (full_width + width - 2 * inner) + weight;
  double most = std::max({activation, second, first});
  if (sparse) {
    // Gradients of the routed tokens before and after the exchange; ranks that cut the experts
    // gather each other's.
    const std::int64_t cut = plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor;
    most += tokens * width * (1 + static_cast<double>(cut)) *
            static_cast<double>(job.model.moe->experts_per_token);
  }
  if (attention_kernel(job) == models::AttentionKernel::kUnfused) {
    // Gradients of the probabilities and of the scores, when the MLP's tensors are already free.
    const double scores = static_cast<double>(job.model.heads) / static_cast<double>(plan.tensor) *
                          static_cast<double>(job.sequence);
    most = std::max(most, tokens * 4 * scores - mlp_kept);
  } else if (!job.model.latent) {
    // Attention's own, beside the gradient of the stream, when the MLP's tensors are free.
    most = std::max(most, tokens * (attention_transient(job, plan) + width) - mlp_kept);
  }
  return most;
}

// Inputs of the linear layers are kept items; the gradients of their outputs are as wide as the
// layers' outputs: q, k, v and gate-up on this rank's share, the residual stream twice.
double output_gradients(const Job& job, const Plan& plan, double tokens, bool sparse) {
  const models::Transformer& model = job.model;
  const double tensor = 1.0 / static_cast<double>(plan.tensor);
  const double sequence = plan.sequence_parallel ? tensor : 1.0;
  const double qkv =
      static_cast<double>((model.heads + 2 * model.kv_heads) * model.head_dim) * tensor;
  const double inner = inner_elements(job, plan, sparse) * (model.gated_mlp ? 2 : 1);
  return tokens * 2 * (qkv + inner + 2 * static_cast<double>(model.hidden) * sequence);
}

// What an activation function reads, and what it wrote where the product with the up half is a
// kernel of its own.
bool is_of_activation(models::Kept kept) {
  using models::Kept;
  constexpr Kept kOnes[] = {Kept::kMlpActivationInput,    Kept::kMlpGateOutput,
                            Kept::kExpertActivationInput, Kept::kExpertGateOutput,
                            Kept::kSharedActivationInput, Kept::kSharedGateOutput};
  return std::ranges::find(kOnes, kept) != std::end(kOnes);
}

bool has_low_precision(const Job& job) {
  return job.precision == Precision::kFp8 || job.precision == Precision::kFp4;
}

// Whether this project's runtime keeps the item's codes in its place.
bool is_kept_as_codes(const KeptCodes& codes, models::Kept item, bool sparse) {
  using models::Kept;
  const std::pair<bool, Kept> kept[] = {{codes.qkv, Kept::kAttentionNormOutput},
                                        {codes.up && !sparse, Kept::kMlpNormOutput},
                                        {codes.down, Kept::kMlpDownInput},
                                        {codes.experts_up, Kept::kExpertInput},
                                        {codes.experts_down, Kept::kExpertDownInput},
                                        {codes.shared_down, Kept::kSharedDownInput}};
  return std::ranges::any_of(kept,
                             [&](const auto& one) { return one.first && one.second == item; });
}

// Bytes of an item under other precisions: Transformer Engine keeps the inputs of its products in 8
// bits under fp8; COAT all but attention's own tensors (NVlabs/COAT coat/models/coat_llama.py,
// save_for_backward).
double item_scale(const Job& job, const models::KeptTraits& item) {
  if (job.precision == Precision::kFp32) {
    return item.always_fp32 ? 1 : 2;
  }
  const Framework& framework = job.framework;
  const bool engine = framework.implementation == Implementation::kTransformerEngine;
  const bool narrow = (item.narrow && (engine || framework.fp8_product_input)) ||
                      (framework.fp8_activation_input && is_of_activation(item.kept)) ||
                      (framework.fp8_norm_input && item.is_stream);
  return has_low_precision(job) && narrow ? 0.5 : 1;
}

// Of replicas under autocast, whose stream is as wide, neither this nor their program says so.
bool keeps_fp32_checkpoints(const Job& job, const Plan& plan) {
  return job.training.fp32_stream || (uses_autocast(job, plan) && plan.sharding != Sharding::kNone);
}

// What norms written out in PyTorch keep of each token beside their input.
double fp32_norm_bytes(const Job& job) {
  const bool low = has_low_precision(job) && job.framework.fp8_norm_input;
  return job.framework.fp32_norms && !low ? 4 * static_cast<double>(job.model.hidden) : 0;
}

}  // namespace

bool has_tiled_mlp(const Job& job, const Plan& plan, bool sparse) {
  return plan.recompute == Recompute::kFull && !sparse && job.framework.loss_chunks > 1 &&
         (plan.recompute_modules & models::kMlp) != 0;
}

bool uses_autocast(const Job& job, const Plan& plan) {
  return !job.training.has_adapters() && job.framework.states == StateLayout::kTorch &&
         job.framework.fp32_shard_is_parameter && !job.framework.mixed_precision_pure &&
         job.precision != Precision::kFp32 &&
         (plan.sharding == Sharding::kNone || job.framework.parameter_bytes >= 4);
}

LayerMemory layer_memory(const Job& job, const Plan& plan, std::int64_t layer,
                         const LayerParameters& parameters) {
  const bool engine = job.framework.implementation == Implementation::kTransformerEngine;
  const bool sparse = parameters.expert > 0;
  const double tokens = static_cast<double>(plan.micro_batch) *
                        static_cast<double>(longest_sequence(job, plan)) /
                        static_cast<double>(plan.context);
  const auto hidden = static_cast<double>(job.model.hidden);
  const bool frozen = job.training.has_adapters();
  LayerMemory memory;
  double selective = 0;
  double mlp_kept = 0;
  double expert_adapters = 0;
  const KeptCodes codes = kept_codes(job, plan);
  for (const models::KeptItem& item :
       models::kept_activations(job.model, layer, shard_of(job, plan, longest_sequence(job, plan)),
                                keeps_as(job), job.framework.dropout)) {
    const models::KeptTraits& traits = models::traits_of(item.kept);
    expert_adapters += frozen ? expert_adapter_kept_bytes(job, plan, item) : 0;
    if ((traits.output_copy && !keeps_output_copy(job)) ||
        (traits.decomposed_norm && !job.framework.decomposed_norms) ||
        (frozen && !is_kept_beside_frozen(job.training, item.kept))) {
      continue;
    }
    const bool of_mlp = dropped_by(models::kMlp, traits, engine);
    const double scale = is_kept_as_codes(codes, item.kept, sparse) ? 0.5 : item_scale(job, traits);
    const double bytes = static_cast<double>(item.bytes.value) * scale *
                         (of_mlp ? part_of_mlp(job, plan, sparse) : 1);
    memory.whole += bytes;
    memory.inputs += traits.feeds_product ? bytes : 0;
    selective += dropped_by(plan.recompute_modules, traits, engine) ? 0 : bytes;
    mlp_kept += traits.half == models::Half::kMlp ? bytes : 0;
  }
  if (uses_autocast(job, plan)) {
    // An fp32 residual stream (2 h more for each norm's input) and a cast input of its own for each
    // linear layer that shares one (q, k, v; gate and up).
    memory.whole += tokens * 10 * hidden;
    selective += tokens * 10 * hidden;
  }
  const double more =
      tokens * ((frozen ? adapter_kept_bytes(job, plan, sparse) : 0) + fp32_norm_bytes(job) +
                (job.training.fp32_stream ? 4 * hidden : 0)) +
      expert_adapters;
  memory.whole += more;
  selective += more;
  // Megatron without sequence parallelism keeps a whole copy of the input on every tensor-parallel
  // rank.
  memory.checkpoint =
      2 * tokens * hidden *
      (plan.sequence_parallel ? 1.0 / static_cast<double>(plan.tensor) : 1.0) *
      (job.precision == Precision::kFp32 || keeps_fp32_checkpoints(job, plan) ? 2 : 1);
  memory.kept = memory.whole;
  if (plan.recompute == Recompute::kSelective) {
    memory.kept = (plan.recompute_modules & kTorchPerOp) != 0
                      ? std::min(memory.whole, kept_per_op(job, plan, tokens, sparse))
                      : selective;
  }
  memory.weight_gradient = memory.inputs + output_gradients(job, plan, tokens, sparse);
  memory.transient = backward_transient(job, plan, parameters, tokens, sparse, mlp_kept);
  if (sparse && runs_own_experts(job, plan)) {
    memory.transient = own_expert_transient(job, plan);
  }
  return memory;
}

}  // namespace trireme::planner
