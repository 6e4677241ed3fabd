// KempnerForge: the model that its TOML describes and trains by PyTorch's FSDP2, with tensor and
// pipeline axes beside it. Sources: KempnerForge of June 2026 (kempnerforge/config/model.py,
// training.py and distributed.py, distributed/parallel.py and tensor_parallel.py, model/mlp.py).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/launch/read_launch.h"
#include "planner/launch/trainers/trainer.h"

namespace trireme::planner {
namespace {

constexpr std::int64_t kMostOfForge = 1'000'000'000;

std::int64_t forge_count(const LaunchConfig& said, const char* key, std::int64_t otherwise) {
  return integer_setting(said, key, 0, kMostOfForge).value_or(otherwise);
}

// Rounded up to whole 256, and an expert's share of it to whole 16.
void read_forge_widths(const LaunchConfig& said, models::Transformer& model) {
  const double more = number_setting(said, "model.ffn_dim_multiplier").value_or(1);
  const double raw = std::floor(4 * static_cast<double>(model.hidden) * (2.0 / 3) * more);
  const auto width = static_cast<std::int64_t>(256 * std::ceil(raw / 256));
  model.ffn = forge_count(said, "model.ffn_hidden_dim", width);
  const std::int64_t experts = forge_count(said, "model.num_experts", 0);
  if (experts == 0) {
    return;
  }
  const double share = number_setting(said, "model.moe_expert_ffn_multiplier").value_or(1);
  models::MixtureOfExperts moe;
  moe.experts = experts;
  moe.experts_per_token = forge_count(said, "model.moe_top_k", 2);
  moe.expert_ffn =
      std::max<std::int64_t>(16, 16 * std::lround(static_cast<double>(model.ffn) * share / 16));
  moe.shared_ffn = forge_count(said, "model.moe_shared_experts", 0) * moe.expert_ffn;
  model.moe = moe;
  const std::int64_t every = std::max<std::int64_t>(1, forge_count(said, "model.moe_frequency", 1));
  for (std::int64_t layer = 1; layer <= model.layers; ++layer) {
    model.moe_layers.push_back(layer % every == 0);
  }
}

models::Transformer forge_model(const LaunchConfig& said) {
  models::Transformer model;
  model.name = "the file's model";
  model.hidden = forge_count(said, "model.dim", 4096);
  model.layers = std::min<std::int64_t>(forge_count(said, "model.n_layers", 32), 100'000);
  model.heads = std::max<std::int64_t>(1, forge_count(said, "model.n_heads", 32));
  model.kv_heads = forge_count(said, "model.n_kv_heads", model.heads);
  model.head_dim = model.hidden / model.heads;
  model.vocab = forge_count(said, "model.vocab_size", 32000);
  model.max_sequence = forge_count(said, "model.max_seq_len", 2048);
  model.gated_mlp = text_setting(said, "model.activation", "silu") == "silu";
  model.norm = text_setting(said, "model.norm_type", "rmsnorm") == "rmsnorm"
                   ? models::Norm::kRmsNorm
                   : models::Norm::kLayerNorm;
  model.qk_norm = is_on(said, "model.qk_norm");
  model.tied_embeddings = is_on(said, "model.tie_embeddings");
  read_forge_widths(said, model);
  return model;
}

void read_forge_axes(const LaunchConfig& said, LaunchConfig& config) {
  LaunchLayout& layout = config.layout;
  layout.sharding = Sharding::kFull;
  layout.tensor = forge_count(said, "distributed.tp", 1);
  layout.pipeline = forge_count(said, "distributed.pp", 1);
  layout.replicas = forge_count(said, "distributed.dp_replicate", 1);
  layout.sequence_parallel = layout.tensor.value_or(1) > 1;
  layout.reshard_after_forward = layout.pipeline.value_or(1) == 1;
  if (const auto shards = integer_setting(said, "distributed.dp_shard", -1, kMostOfForge);
      shards.value_or(-1) > 0) {
    layout.sharded = shards;
  }
  if (layout.pipeline.value_or(1) > 1) {
    const std::string name = text_setting(said, "distributed.pp_schedule", "1f1b");
    layout.schedule = name == "gpipe"              ? Schedule::kGpipe
                      : name == "interleaved_1f1b" ? Schedule::kInterleaved
                                                   : Schedule::kOneForwardOneBackward;
  }
  // Axes of their own, whose ranks see the same samples: taken for parts of the sharded one.
  for (const char* axis : {"distributed.ep", "distributed.cp"}) {
    const std::int64_t ranks = std::clamp<std::int64_t>(forge_count(said, axis, 1), 1, 100'000);
    if (ranks > 1) {
      config.foreign.push_back(fmt::format("{} {}", axis, ranks));
      layout.sharded = layout.sharded
                           ? std::optional(std::min(*layout.sharded, kMostOfForge) * ranks)
                           : std::nullopt;
    }
  }
}

void read_forge_training(const LaunchConfig& said, LaunchConfig& config) {
  config.sequence = forge_count(said, "train.seq_len", 2048);
  config.layout.micro_batch = forge_count(said, "train.batch_size", 8);
  config.layout.micro_batches = forge_count(said, "train.grad_accum_steps", 1);
  config.precision = text_setting(said, "train.mixed_precision", "bf16");
  if (config.precision != "fp32") {  // the weights are held in it, and AdamW's states are theirs
    config.choices.emplace_back("parameter_dtype=bf16");
    config.choices.emplace_back("optimizer_dtype=bf16");
  }
  config.choices.emplace_back("reduce_dtype=fp32");
  const bool compiled = switch_setting(said, "train.compile_model").value_or(true);
  config.choices.push_back(fmt::format("compile={}", compiled));
  const std::string kept = text_setting(said, "train.activation_checkpointing", "none");
  config.layout.recompute = kept == "full" ? Recompute::kFull : Recompute::kNone;
  if (kept == "selective") {
    config.unmodelled.emplace_back("recompute of attention modules whole");
  }
  if (const std::string name = text_setting(said, "optimizer.name", "adamw"); name != "adamw") {
    config.unmodelled.push_back("optimizer " + name);
  }
}

}  // namespace

bool is_kempnerforge(std::string_view text, const std::string& source) {
  const auto has = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
  return source.ends_with(".toml") && has("[distributed]") && has("[model]") && has("[train]") &&
         has("\ndim =");
}

LaunchConfig read_kempnerforge(std::string_view text, const std::string& source,
                               const std::vector<std::string>& arguments) {
  LaunchConfig said;
  said.source = source;
  said.format = LaunchFormat::kAccelerate;
  read_toml_settings(text, said);
  add_arguments(arguments, "train.batch_size=2", said);
  LaunchConfig config = said;
  config.settings.clear();
  config.framework = config.predicted_as = "fsdp2";  // layers of its own, not transformers'
  config.model = forge_model(said);
  read_forge_axes(said, config);
  read_forge_training(said, config);
  for (const LaunchSetting& setting : said.settings) {
    if (setting.key.starts_with("model.vlm.") || setting.key.starts_with("vlm.")) {
      config.foreign.emplace_back("the images that its vision tower adds");
      break;
    }
  }
  put_program("kempnerforge", config);
  return config;
}

}  // namespace trireme::planner
