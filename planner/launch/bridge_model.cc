// Source: Megatron-Bridge 067f987d, models/gpt_provider.py and models/mla_provider.py; the fields
// of Megatron-Core's TransformerConfig.
#include "planner/launch/bridge_model.h"

#include <fmt/format.h>

#include "planner/launch/function_spellings.h"
#include "planner/launch/megatron_model_refusals.h"

namespace trireme::planner {
namespace {

using models::Transformer;

// Collects "cfg.model.NAME = VALUE".
struct Lines {
  std::vector<std::string> lines;
  template <typename Value>
  void set(const char* name, const Value& value) {
    lines.push_back(fmt::format("cfg.model.{} = {}", name, value));
  }
  void set(const char* name, bool value) { set(name, std::string(python(value))); }
};

void set_attention(const Transformer& model, Lines& out) {
  if (model.latent) {
    const models::LatentAttention& latent = *model.latent;
    out.set("multi_latent_attention", true);
    if (latent.q_lora > 0) {
      out.set("q_lora_rank", latent.q_lora);
    } else {
      out.set("q_lora_rank", "None");
    }
    out.set("kv_lora_rank", latent.kv_lora);
    out.set("qk_head_dim", latent.qk_nope);
    out.set("qk_pos_emb_head_dim", latent.qk_rope);
    out.set("v_head_dim", latent.v_head);
    out.set("qk_layernorm", true);
  } else {
    out.set("num_query_groups", model.kv_heads);
    out.set("kv_channels", model.head_dim);
    out.set("qk_layernorm", model.qk_norm);
  }
  if (model.attention_sinks) {
    out.set("softmax_type", "\"learnable\"");
  }
  if (model.sliding_window > 0) {
    out.set("window_size", fmt::format("({}, 0)", model.sliding_window - 1));
    if (!model.sliding_layers.empty()) {
      out.set("window_attn_skip_freq", layer_pattern(model.sliding_layers));
    }
  }
}

void set_positions(const Job& job, Lines& out) {
  const bool learned = job.model.position == models::Position::kLearned;
  if (learned && megatron_positions(job) != job.sequence) {
    refuse("--seq",
           fmt::format("Megatron-Bridge's position table has as many rows as the sequence; "
                       "--seq {} would be right",
                       megatron_positions(job)));
  }
  const bool rotary = job.model.position == models::Position::kRotary;
  if (!rotary) {  // the rotation is a part of the function
    out.set("position_embedding_type", learned ? "\"learned_absolute\"" : "\"none\"");
  }
  out.set("seq_length", job.sequence);
}

void set_layer(const Job& job, Lines& out) {
  const Transformer& model = job.model;
  out.set("normalization", model.norm == models::Norm::kRmsNorm ? "\"RMSNorm\"" : "\"LayerNorm\"");
  out.set("gated_linear_unit", model.gated_mlp);
  for (const FunctionSetting& setting : megatron_function(model, FunctionFormat::kBridge)) {
    out.set(setting.name.c_str(), setting.value);
  }
  out.set("add_bias_linear", has_linear_biases(model));
  out.set("add_qkv_bias", model.qkv_bias);
  out.set("share_embeddings_and_output_weights", model.tied_embeddings);
  out.set("attention_dropout", job.framework.dropout);
  out.set("hidden_dropout", job.framework.dropout);
}

void set_experts(const Job& job, Lines& out) {
  const Transformer& model = job.model;
  if (!model.moe) {
    return;
  }
  const models::MixtureOfExperts& moe = *model.moe;
  out.set("num_moe_experts", moe.experts);
  out.set("moe_router_topk", moe.experts_per_token);
  out.set("moe_ffn_hidden_size", moe.expert_ffn);
  if (!model.moe_layers.empty()) {
    out.set("moe_layer_freq", layer_pattern(model.moe_layers));
  }
  if (moe.shared_ffn > 0) {
    out.set("moe_shared_expert_intermediate_size", moe.shared_ffn);
    out.set("moe_shared_expert_gate", moe.shared_gate);
  }
  if (moe.capacity_factor > 0) {
    out.set("moe_expert_capacity_factor", moe.capacity_factor);
  }
  out.set("moe_token_dispatcher_type", job.framework.dispatch_once ? "\"flex\"" : "\"alltoall\"");
  out.set("moe_grouped_gemm", true);
}

}  // namespace

const char* python(bool value) {
  return value ? "True" : "False";
}

std::vector<std::string> bridge_model_lines(const LaunchPlan& launch) {
  const Job& job = launch.job;
  const Transformer& model = job.model;
  Lines out;
  // Megatron-Bridge's providers compute derived fields only once the run starts, so that all of
  // them can be assigned.
  out.lines.push_back(
      fmt::format("cfg.model = {}()", model.latent ? "MLAModelProvider" : "GPTModelProvider"));
  out.set("num_layers", model.layers);
  out.set("hidden_size", model.hidden);
  out.set("num_attention_heads", model.heads);
  out.set("ffn_hidden_size", model.ffn > 0 ? model.ffn : model.moe->expert_ffn);
  set_attention(model, out);
  set_positions(job, out);
  set_layer(job, out);
  set_experts(job, out);
  if (model.multi_token_layers > 0) {
    out.set("mtp_num_layers", model.multi_token_layers);
  }
  out.set("vocab_size", model.vocab);
  out.set("should_pad_vocab", job.framework.pad_vocabulary);
  return out.lines;
}

}  // namespace trireme::planner
