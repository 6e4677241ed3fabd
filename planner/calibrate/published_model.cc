// The shape and the framework of a printed row: what its format says where the row is silent.
#include "planner/calibrate/published_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/error.h"

namespace trireme::planner {

using models::Transformer;

namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Megatron before Transformer Engine: its own layers, usually with dropout.
bool is_classic(const PublishedRow& row) {
  return row.attention == "unfused" || contains(row.framework, "DeepSpeed") ||
         contains(row.framework, "SC21") || contains(row.framework, "2020") ||
         contains(row.framework, "2021") || contains(row.framework, "zero-bubble") ||
         contains(row.framework, "2205.05198");
}

std::int64_t need(const std::optional<std::int64_t>& value, const char* key) {
  if (!value || *value <= 0) {
    throw Skip{fmt::format("{} is missing", key)};
  }
  return *value;
}

void fill_experts(const PublishedRow& row, Transformer& model) {
  model.moe = *row.moe;
  if (model.moe->experts <= 0 || model.moe->experts_per_token <= 0 || model.moe->expert_ffn <= 0) {
    throw Skip{"moe.experts, moe.topk or moe.moe_ffn is missing"};
  }
  const auto layers = static_cast<std::size_t>(model.layers);
  const auto sparse = row.moe_layers > 0 ? static_cast<std::size_t>(row.moe_layers) : layers;
  if (sparse > layers) {
    throw Skip{"moe.moe_layers is more than layers"};
  }
  model.moe_layers.assign(layers, false);
  for (std::size_t layer = layers - sparse; layer < layers; ++layer) {
    model.moe_layers[layer] = true;  // dense layers come first (DeepSeek)
  }
}

}  // namespace

Transformer model_of(const PublishedRow& row, std::vector<std::string>& assumed) {
  if (contains(row.model, "distill")) {
    throw Skip{"distillation holds a teacher beside the model"};
  }
  Transformer model;
  model.name = row.model;
  model.layers = need(row.layers, "layers");
  model.hidden = need(row.hidden, "hidden");
  model.heads = need(row.heads, "heads");
  model.kv_heads = row.kv_heads.value_or(model.heads);
  model.head_dim = row.head_dim.value_or(model.hidden / model.heads);
  model.gated_mlp = row.gated_mlp.value_or(false);
  model.max_sequence = need(row.seq, "seq");
  if (row.ffn) {
    model.ffn = *row.ffn;
  } else if (!model.gated_mlp) {
    model.ffn = 4 * model.hidden;
    assumed.push_back(fmt::format("ffn={}", model.ffn));
  } else {
    throw Skip{"ffn is missing"};
  }
  if (row.vocab) {
    model.vocab = *row.vocab;
  } else {
    model.vocab = model.gated_mlp ? 32000 : 50257;  // Llama 2's and GPT-2's vocabularies
    assumed.push_back(fmt::format("vocab={}", model.vocab));
  }
  if (!model.gated_mlp) {  // GPT
    model.norm = models::Norm::kLayerNorm;
    model.position = models::Position::kLearned;
    model.position_rows = model.max_sequence;
    model.qkv_bias = model.attention_output_bias = model.mlp_bias = true;
    model.tied_embeddings = true;
  }
  if (contains(row.notes, "untie-embeddings-and-output-weights=True")) {
    model.tied_embeddings = false;
  }
  model.tied_embeddings = row.tied_embeddings.value_or(model.tied_embeddings);
  model.latent = row.latent;
  if (row.moe) {
    fill_experts(row, model);
  }
  if (row.sliding_window > 0) {
    model.sliding_window = row.sliding_window;
    const auto layers = static_cast<std::size_t>(model.layers);
    model.sliding_layers.assign(layers, row.sliding_layers == 0);
    for (std::size_t layer = 0; layer < layers && row.sliding_layers > 0; ++layer) {
      model.sliding_layers[layer] =
          layer * static_cast<std::size_t>(row.sliding_layers) / layers !=
          (layer + 1) * static_cast<std::size_t>(row.sliding_layers) / layers;
    }
  }
  models::check_transformer(model, row.id);
  return model;
}

models::AttentionKernel attention_of(const PublishedRow& row, std::vector<std::string>& assumed) {
  bool unfused = row.attention == "unfused" || contains(row.notes, "attention-backend=unfused");
  if (row.attention.empty()) {
    // Classic Megatron had no other kernel.
    unfused = unfused || (row.behaviour == "megatron" && is_classic(row));
    assumed.emplace_back(unfused ? "attention=unfused" : "attention=flash");
  }
  return unfused ? models::AttentionKernel::kUnfused : models::AttentionKernel::kFlash;
}

namespace {

bool is_known_framework(const std::string& name) {
  const std::vector<std::string> names = framework_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The framework whose behaviour the row names, or the one nearest to how the row shards.
Framework behaviour_of(const PublishedRow& row, std::vector<std::string>& assumed) {
  if (is_known_framework(row.behaviour)) {
    return find_framework(row.behaviour);
  }
  const std::string name = row.finetune                  ? finetune_behaviour(row)
                           : row.sharding == "full"      ? "fsdp2"
                           : row.sharding == "gradients" ? "deepspeed"
                                                         : "megatron";
  assumed.push_back(
      fmt::format("behaviour={} (nearest to {})", name,
                  row.framework.empty() ? "a framework that is not named" : row.framework));
  return find_framework(name);
}

// Megatron-LM as the row's version of it was, and as DeepSpeed drove it.
void set_megatron(const PublishedRow& row, Framework& framework) {
  if (is_classic(row)) {
    framework.implementation = models::Implementation::kClassicMegatron;
  }
  if (contains(row.framework, "DeepSpeed")) {
    // Megatron-DeepSpeed: ZeRO's buckets, the BF16 optimizer's fp32 gradients beside the bf16 ones,
    // and a PyTorch that loads every kernel into its context.
    framework.bucket_elements = 500000000;
    framework.gradient_bytes = row.precision == "bf16" ? 6 : framework.gradient_bytes;
    framework.reserved_typical = 1.15;
    framework.reserved_high = 1.45;
    framework.context_gib = 0.9;
    framework.scattered_boundary = true;
    // BigScience's runs on A100 were made with CUDA_LAUNCH_BLOCKING=1, against hangs.
    framework.launch_blocking = contains(row.framework, "BigScience") && contains(row.gpu, "A100");
  }
  if (contains(row.framework, "Megatron-LM main")) {
    // Its fused loss is the native one, which does not work in place as Transformer Engine's does.
    framework.fused_logit_bytes = 12;
  }
  // Megatron-LM trains GPT with dropout 0.1 unless told otherwise; its Llama-type recipes switch it
  // off.
  if (!row.gated_mlp.value_or(false)) {
    framework.dropout = 0.1;
  }
}

// Programs built on another framework, whose recipes differ from its defaults.
void set_recipes(const PublishedRow& row, Framework& framework) {
  if (contains(row.framework, "Megatron-Bridge")) {
    // Its recipes: fp8 runs keep fp8 parameters; they and the performance pages reduce in bf16; the
    // DeepSeek family's optimizer states are bf16.
    const bool low =
        row.precision.substr(0, 3) == "fp8" || contains(row.framework, "NeMo container");
    framework.fp8_parameters = true;
    framework.gradient_bytes = low || row.latent ? 2 : framework.gradient_bytes;
    framework.moment_bytes = row.latent ? 4 : framework.moment_bytes;
  }
  if (contains(row.framework, "llm-foundry")) {
    framework.attention_output_copy = false;
    framework.logit_bytes = 4;  // flash-attention's cross-entropy on 16-bit logits
  }
  if (contains(row.framework, "nanotron")) {
    // PyTorch modules; fp32 accumulation beside bf16 gradients.
    framework.implementation = models::Implementation::kEagerTorch;
    framework.gradient_bytes = 6;
    framework.attention_output_copy = false;
  }
  if (contains(row.framework, "torch.compile")) {
    apply_setting(framework, "compile", "true");
  }
}

// torchtitan, and the PyTorch of the row's date under it.
void set_torchtitan(const PublishedRow& row, Framework& framework) {
  framework.expandable_segments = true;  // its launch script sets it
  framework.recorded_collectives = !row.date.empty() && row.date < "2025-07";  // PyTorch 2.8
  if (contains(row.notes, "graph_trainer") || contains(row.notes, "compiler toolkit")) {
    framework.traced_graph = true;
  }
  if (row.tp.value_or(1) > 1 && row.date < "2026") {
    // PyTorch's vocabulary-parallel loss held 16-bit and four fp32 copies in its backward; 2.11
    // does not.
    framework.logit_bytes = 18;
  }
  for (const auto& [key, value] : row.settings) {
    // Since mid 2025 torchtitan compiles the loss with the model: 16-bit logits and their gradient
    // remain.
    if (key == "compile" && value == "true" && row.date >= "2025-06") {
      framework.logit_bytes = 4;
    }
  }
}

}  // namespace

Framework framework_of(const PublishedRow& row, std::vector<std::string>& assumed) {
  Framework framework = behaviour_of(row, assumed);
  if (framework.name == "megatron") {
    set_megatron(row, framework);
  }
  if (framework.name == "deepspeed" && !row.date.empty() && row.date < "2022") {
    // ZeRO-3 as first released gathered and reduced in line with compute.
    framework.overlap_param_gather = framework.overlap_grad_reduce = false;
  }
  set_recipes(row, framework);
  if (contains(row.framework, "torchtitan")) {
    set_torchtitan(row, framework);
  }
  for (const auto& [key, value] : row.settings) {
    try {
      apply_setting(framework, key, value);
    } catch (const Error& error) {
      assumed.push_back(fmt::format("settings.{} not modelled", key));
    }
  }
  return framework;
}

topologies::Precision precision_of(const PublishedRow& row) {
  using topologies::Precision;
  constexpr std::pair<std::string_view, Precision> kNames[] = {
      {"bf16", Precision::kBf16}, {"fp16", Precision::kFp16}, {"fp8", Precision::kFp8},
      {"nvfp4", Precision::kFp4}, {"fp4", Precision::kFp4},   {"fp32", Precision::kFp32}};
  for (const auto& [name, precision] : kNames) {
    if (row.precision.substr(0, name.size()) == name) {
      return precision;
    }
  }
  return Precision::kBf16;
}

}  // namespace trireme::planner
