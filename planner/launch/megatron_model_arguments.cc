// The model's part of Megatron-LM's arguments. Source: Megatron-LM d98e8a64, training/arguments.py.
#include "planner/launch/megatron_model_arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/launch/function_spellings.h"
#include "planner/launch/megatron_model_refusals.h"

namespace trireme::planner {
namespace {

using models::Transformer;

std::string attention_arguments(const Transformer& model) {
  std::string text = fmt::format("--num-attention-heads {}", model.heads);
  if (model.latent) {
    const models::LatentAttention& latent = *model.latent;
    text += " --multi-latent-attention";
    text += latent.q_lora > 0 ? fmt::format(" --q-lora-rank {}", latent.q_lora) : "";
    // The norms of the compressed q and kv are Megatron's q and k norms.
    return text + fmt::format(
                      " --kv-lora-rank {} --qk-head-dim {} --qk-pos-emb-head-dim {} "
                      "--v-head-dim {} --qk-layernorm",
                      latent.kv_lora, latent.qk_nope, latent.qk_rope, latent.v_head);
  }
  if (model.kv_heads != model.heads) {
    text += fmt::format(" --group-query-attention --num-query-groups {}", model.kv_heads);
  }
  text += fmt::format(" --kv-channels {}", model.head_dim);
  text += model.qk_norm ? " --qk-layernorm" : "";
  text += model.attention_sinks ? " --softmax-type learnable" : "";
  return text;
}

std::string window_arguments(const Transformer& model) {
  if (model.sliding_window == 0) {
    return "";
  }
  // TransformerEngine counts the tokens before a query: a window of w sees w - 1 of them.
  std::string text = fmt::format("--window-size {},0", model.sliding_window - 1);
  if (!model.sliding_layers.empty()) {
    text += fmt::format(" --window-attn-skip-freq \"{}\"", layer_pattern(model.sliding_layers));
  }
  return text;
}

std::string position_arguments(const Job& job) {
  std::string text = fmt::format("--seq-length {} --max-position-embeddings {}", job.sequence,
                                 megatron_positions(job));
  if (job.model.position == models::Position::kLearned) {
    return text + " --position-embedding-type learned_absolute";
  }
  if (job.model.position == models::Position::kNone) {
    return text + " --position-embedding-type none";
  }
  return text;  // the rotation is a part of the function
}

std::string layer_arguments(const Transformer& model) {
  std::string text = fmt::format("--normalization {}",
                                 model.norm == models::Norm::kRmsNorm ? "RMSNorm" : "LayerNorm");
  text += has_linear_biases(model) ? "" : " --disable-bias-linear";
  text += model.qkv_bias && !has_linear_biases(model) ? " --add-qkv-bias" : "";
  return text + (model.tied_embeddings ? "" : " --untie-embeddings-and-output-weights");
}

std::string expert_arguments(const Job& job) {
  const Transformer& model = job.model;
  if (!model.moe) {
    return "";
  }
  const models::MixtureOfExperts& moe = *model.moe;
  std::string text = fmt::format("--num-experts {} --moe-router-topk {} --moe-ffn-hidden-size {}",
                                 moe.experts, moe.experts_per_token, moe.expert_ffn);
  if (!model.moe_layers.empty()) {
    text += fmt::format(" --moe-layer-freq \"{}\"", layer_pattern(model.moe_layers));
  }
  if (moe.shared_ffn > 0) {
    text += fmt::format(" --moe-shared-expert-intermediate-size {}", moe.shared_ffn);
    text += moe.shared_gate ? " --moe-shared-expert-gate" : "";
  }
  text += moe.capacity_factor > 0
              ? fmt::format(" --moe-expert-capacity-factor {}", moe.capacity_factor)
              : "";
  // The grouped product's kernels need Ampere, and Transformer Engine's layers.
  const bool local = job.framework.implementation == models::Implementation::kClassicMegatron;
  const bool grouped = job.cluster.gpu.compute_capability >= 80 && !local;
  text += job.framework.dispatch_once ? " --moe-token-dispatcher-type flex --moe-enable-deepep"
                                      : " --moe-token-dispatcher-type alltoall";
  return text + (grouped ? " --moe-grouped-gemm" : "");
}

std::string function_arguments(const Transformer& model) {
  std::string text;
  for (const FunctionSetting& setting : megatron_function(model, FunctionFormat::kMegatron)) {
    std::string flag = setting.name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    text += (text.empty() ? "--" : " --") + flag;
    const bool quoted = setting.value.find_first_of("([") != std::string::npos;
    text += setting.value.empty() ? ""
            : quoted              ? " \"" + setting.value + "\""
                                  : " " + setting.value;
  }
  return text;
}

}  // namespace

std::vector<std::string> megatron_model_arguments(const LaunchPlan& launch) {
  const Transformer& model = launch.job.model;
  std::vector<std::string> lines = {
      fmt::format("--num-layers {} --hidden-size {} --ffn-hidden-size {}", model.layers,
                  model.hidden, model.ffn > 0 ? model.ffn : model.moe->expert_ffn),
      attention_arguments(model),
      window_arguments(model),
      position_arguments(launch.job),
      layer_arguments(model),
      function_arguments(model),
      expert_arguments(launch.job),
      model.multi_token_layers > 0 ? fmt::format("--mtp-num-layers {}", model.multi_token_layers)
                                   : ""};
  std::erase(lines, "");
  return lines;
}

}  // namespace trireme::planner
