// The shape and the framework of a printed row: what its format says where the row is silent.
#include "planner/calibrate/published_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/error.h"
#include "models/presets.h"
#include "planner/calibrate/row_words.h"
#include "planner/plan/framework_versions.h"
#include "topologies/compose.h"

namespace trireme::planner {

using models::Transformer;

namespace {

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

// Rows do not print how a router groups and balances its experts or whether those have biases: as
// the preset does that the name begins with.
void fill_from_preset(Transformer& model) {
  for (const std::string& name : models::preset_names()) {
    if (!model.name.starts_with(name)) {
      continue;
    }
    const Transformer preset = models::load_model(name);
    if (preset.moe && preset.moe->experts == model.moe->experts) {
      model.moe->expert_bias = preset.moe->expert_bias;
      model.function.router_groups = preset.function.router_groups;
      model.function.router_groups_chosen = preset.function.router_groups_chosen;
      model.function.router_bias_selects = preset.function.router_bias_selects;
    }
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
  model.tied_embeddings = row.tied_embeddings.value_or(model.tied_embeddings);
  model.latent = row.latent;
  if (row.moe) {
    fill_experts(row, model);
    fill_from_preset(model);
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

namespace {

// What recipes ask of the row's run.
RecipeCase recipe_case_of(const PublishedRow& row, const Transformer& model) {
  RecipeCase run;
  run.precision = precision_of(row);
  run.latent = row.latent.has_value();
  run.experts = row.moe.has_value();
  run.gated = row.gated_mlp.value_or(false);
  run.unfused = row.attention == "unfused";
  run.tensor = row.tp.value_or(1) > 1;
  run.pipeline = row.pp.value_or(1) > 1;
  run.expert_bias = model.moe && model.moe->expert_bias;
  run.tuning = row.finetune.has_value();
  try {
    const auto each = static_cast<int>(std::min<std::int64_t>(row.gpus_per_node.value_or(0), 1024));
    const topologies::Cluster cluster =
        topologies::compose_cluster(row.gpu, each, std::max(each, 1), row.cluster, row.id);
    run.compute_capability = cluster.gpu.compute_capability;
    run.rack = is_rack(cluster);
  } catch (const Error&) {
    run.compute_capability = 0;  // said where the cluster is made
  }
  return run;
}

// The framework and version that the row names or that its words and date stand for, else the one
// nearest to how the row shards.
std::string behaviour_of_row(const PublishedRow& row, std::vector<std::string>& assumed) {
  std::string found = behaviour_of(row.behaviour, row.framework, row.notes, row.date);
  if (!found.empty()) {
    if (found != row.behaviour) {
      assumed.push_back("behaviour=" + found);
    }
    return found;
  }
  const std::string nearest = row.finetune                  ? finetune_behaviour(row)
                              : row.sharding == "full"      ? "fsdp2"
                              : row.sharding == "gradients" ? "deepspeed"
                                                            : "megatron";
  assumed.push_back(
      fmt::format("behaviour={} (nearest to {})", nearest,
                  row.framework.empty() ? "a framework that is not named" : row.framework));
  return behaviour_of(nearest, "", "", row.date);
}

}  // namespace

models::AttentionKernel attention_of(const PublishedRow& row, const Framework& framework,
                                     std::vector<std::string>& assumed) {
  bool unfused = row.attention == "unfused";
  if (row.attention.empty()) {
    // Classic Megatron had no other kernel.
    unfused = framework.implementation == models::Implementation::kClassicMegatron;
    assumed.emplace_back(unfused ? "attention=unfused" : "attention=flash");
  }
  return unfused ? models::AttentionKernel::kUnfused : models::AttentionKernel::kFlash;
}

Framework framework_of(const PublishedRow& row, const Transformer& model,
                       std::vector<std::string>& assumed) {
  Framework framework = find_framework(behaviour_of_row(row, assumed), recipe_case_of(row, model));
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
