// The model's part of the table. Sources: Megatron-LM d98e8a64, training/arguments.py;
// Megatron-Bridge 067f987d, models/gpt_provider.py, models/mla_provider.py.
#include <fmt/format.h>

#include "models/model_names.h"
#include "planner/launch/launch_facts.h"
#include "planner/launch/megatron/megatron.h"

namespace trireme::planner {
namespace {

using L = LaunchPlan;
using models::LatentAttention;
using models::Transformer;
using Moe = models::MixtureOfExperts;
using enum MegatronUse;

bool is_latent(const L& l) {
  return l.job.model.latent.has_value();
}
bool compresses_queries(const L& l) {
  return is_latent(l) && l.job.model.latent->q_lora > 0;
}
bool is_plain(const L& l) {
  return !is_latent(l);
}
bool groups_queries(const L& l) {
  return is_plain(l) && l.job.model.kv_heads != l.job.model.heads;
}
// The flex dispatcher asks for ranks to send to.
bool dispatches_once(const L& l) {
  return has_experts(l) && l.job.framework.dispatch_once && l.plan.expert * l.plan.tensor > 1;
}
bool has_shared_expert(const L& l) {
  return has_experts(l) && l.job.model.moe->shared_ffn > 0;
}
// The rotation is a part of the function (function_spellings.h).
FieldValue position_type(const L& l) {
  const models::Position position = l.job.model.position;
  return when(position != models::Position::kRotary,
              position == models::Position::kLearned ? "learned_absolute" : "none");
}
// Transformer Engine counts the tokens before a query: a window of w sees w - 1 of them.
FieldValue window(const L& l) {
  const std::int64_t tokens = l.job.model.sliding_window;
  return when(tokens > 0, Expression{fmt::format("{},0", tokens - 1)});
}
FieldValue window_pair(const L& l) {
  const std::int64_t tokens = l.job.model.sliding_window;
  return when(tokens > 0, Expression{fmt::format("({}, 0)", tokens - 1)});
}
FieldValue windowed_layers(const L& l) {
  const Transformer& model = l.job.model;
  return when(model.sliding_window > 0 && !model.sliding_layers.empty(),
              Expression{layer_pattern(model.sliding_layers)});
}
FieldValue expert_layers(const L& l) {
  return when(has_experts(l) && !l.job.model.moe_layers.empty(),
              Expression{layer_pattern(l.job.model.moe_layers)});
}

}  // namespace

std::vector<MegatronTopic> megatron_model_fields() {
  return {
      {
          {kValue, "num_layers", "model.num_layers", &Transformer::layers},
          {kValue, "hidden_size", "model.hidden_size", &Transformer::hidden},
          {kValue, "ffn_hidden_size", "model.ffn_hidden_size",
           either([](const L& l) { return l.job.model.ffn > 0; }, &Transformer::ffn,
                  &Moe::expert_ffn)},
          {kValue, "mtp_num_layers", "model.mtp_num_layers",
           given([](const L& l) { return l.job.model.multi_token_layers > 0; },
                 &Transformer::multi_token_layers)},
          {kValue, "vocab_size", "model.vocab_size", &Transformer::vocab},
          {kValue, "", "tokenizer.vocab_size",
           given([](const L& l) { return l.form == LaunchForm::kBenchmark; }, &Transformer::vocab)},
          {kValue, "make_vocab_size_divisible_by", "",
           either([](const L& l) { return l.job.framework.pad_vocabulary; }, 128, 1)},
          {kSwitch, "", "model.should_pad_vocab", &Framework::pad_vocabulary},
      },
      {
          {kValue, "num_attention_heads", "model.num_attention_heads", &Transformer::heads},
          {kSwitch, "multi_latent_attention", "model.multi_latent_attention",
           given(is_latent, true)},
          {kValue, "q_lora_rank", "model.q_lora_rank",
           given(compresses_queries, &LatentAttention::q_lora),
           either(compresses_queries, &LatentAttention::q_lora,
                  given(is_latent, Expression{"None"}))},
          {kValue, "kv_lora_rank", "model.kv_lora_rank", &LatentAttention::kv_lora},
          {kValue, "qk_head_dim", "model.qk_head_dim", &LatentAttention::qk_nope},
          {kValue, "qk_pos_emb_head_dim", "model.qk_pos_emb_head_dim", &LatentAttention::qk_rope},
          {kValue, "v_head_dim", "model.v_head_dim", &LatentAttention::v_head},
          {kSwitch, "group_query_attention", "", groups_queries},
          {kValue, "num_query_groups", "model.num_query_groups",
           given(groups_queries, &Transformer::kv_heads), given(is_plain, &Transformer::kv_heads)},
          {kValue, "kv_channels", "model.kv_channels", given(is_plain, &Transformer::head_dim)},
          // The norms of the compressed q and kv are Megatron's q and k norms.
          {kSwitch, "qk_layernorm", "model.qk_layernorm",
           either(is_latent, true, &Transformer::qk_norm)},
          {kValue, "softmax_type", "model.softmax_type",
           given([](const L& l) { return l.job.model.attention_sinks; }, "learnable")},
          {kValue, "window_size", "model.window_size", window, window_pair},
          {kValue, "window_attn_skip_freq", "model.window_attn_skip_freq", windowed_layers},
      },
      {
          {kValue, "seq_length", "model.seq_length", &Job::sequence},
          {kValue, "", "dataset.seq_length", &Job::sequence},
          {kValue, "max_position_embeddings", "",
           [](const L& l) { return megatron_positions(l.job); }},
          {kValue, "position_embedding_type", "model.position_embedding_type", position_type},
      },
      {
          {kValue, "normalization", "model.normalization",
           either([](const L& l) { return l.job.model.norm == models::Norm::kRmsNorm; }, "RMSNorm",
                  "LayerNorm")},
          {kSwitch, "swiglu", "model.gated_linear_unit", nullptr, &Transformer::gated_mlp},
          {kOpposite, "disable_bias_linear", "model.add_bias_linear",
           [](const L& l) { return !has_linear_biases(l.job.model); }},
          {kSwitch, "add_qkv_bias", "model.add_qkv_bias",
           [](const L& l) { return l.job.model.qkv_bias && !has_linear_biases(l.job.model); },
           &Transformer::qkv_bias},
          {kOpposite, "untie_embeddings_and_output_weights",
           "model.share_embeddings_and_output_weights",
           [](const L& l) { return !l.job.model.tied_embeddings; }},
      },
      {
          {kValue, "num_experts", "model.num_moe_experts", &Moe::experts},
          {kValue, "moe_router_topk", "model.moe_router_topk", &Moe::experts_per_token},
          {kValue, "moe_ffn_hidden_size", "model.moe_ffn_hidden_size", &Moe::expert_ffn},
          {kValue, "moe_layer_freq", "model.moe_layer_freq", expert_layers},
          {kValue, "moe_shared_expert_intermediate_size",
           "model.moe_shared_expert_intermediate_size", given(has_shared_expert, &Moe::shared_ffn)},
          {kSwitch, "moe_shared_expert_gate", "model.moe_shared_expert_gate",
           given(has_shared_expert, &Moe::shared_gate)},
          {kValue, "moe_expert_capacity_factor", "model.moe_expert_capacity_factor",
           given([](const L& l) { return has_experts(l) && l.job.model.moe->capacity_factor > 0; },
                 &Moe::capacity_factor)},
          {kValue, "moe_token_dispatcher_type", "model.moe_token_dispatcher_type",
           given(has_experts, either(dispatches_once, "flex", "alltoall"))},
          {kSwitch, "moe_enable_deepep", "", dispatches_once},
          // The grouped product's kernels need Ampere, and Transformer Engine's layers.
          {kSwitch, "moe_grouped_gemm", "model.moe_grouped_gemm",
           given(has_experts,
                 [](const L& l) {
                   return l.job.cluster.gpu.compute_capability >= 80 &&
                          l.job.framework.implementation !=
                              models::Implementation::kClassicMegatron;
                 })},
      },
  };
}

}  // namespace trireme::planner
