// Sources: torchtitan v0.2.2, config/job_config.py and distributed/pipeline_parallel.py.
#include <fmt/format.h>

#include <algorithm>

#include "planner/launch/export.h"
#include "planner/launch/field_table.h"
#include "planner/launch/launch_facts.h"
#include "planner/launch/torchtitan.h"
#include "planner/plan/stages.h"

namespace trireme::planner {
namespace {

using L = LaunchPlan;
using Layers = std::vector<std::int64_t>;

Layers chunk_layers(const LaunchPlan& launch) {
  Layers layers;
  for (const Chunk& chunk : chunks_of(launch.job, launch.plan)) {
    layers.push_back(chunk.own_layers());
  }
  return layers;
}

// generate_llm_fqn_per_model_part: layers spread evenly once the ends count as `less` layers each.
// Empty where it refuses.
Layers torchtitan_split(std::int64_t layers, std::int64_t chunks, std::int64_t less) {
  const std::int64_t effective = layers + 2 * less;
  const std::int64_t base = effective / chunks;
  if (base == 0 || less > base) {
    return {};
  }
  Layers split;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    split.push_back(base + (chunk < effective % chunks ? 1 : 0));
  }
  split.front() -= less;
  split.back() -= less;
  return split;
}

// Which modules each chunk has, for a split that no rule of torchtitan gives.
std::string module_lists(const Layers& layers) {
  std::string text = "[\n";
  std::int64_t next = 0;
  for (std::size_t chunk = 0; chunk < layers.size(); ++chunk) {
    std::vector<std::string> names;
    if (chunk == 0) {
      names.emplace_back("\"tok_embeddings\"");
    }
    for (std::int64_t i = 0; i < layers[chunk]; ++i) {
      names.push_back(fmt::format("\"layers.{}\"", next++));
    }
    if (chunk + 1 == layers.size()) {
      names.insert(names.end(), {"\"norm\"", "\"output\""});
    }
    text += fmt::format("  [{}],\n", fmt::join(names, ", "));
  }
  return text + "]";
}

// How many layers the ends count as, and the layers a chunk of which torchtitan makes the chunks;
// nothing where its rule gives another split.
struct EvenStages {
  std::int64_t less = 0, per_stage = 0;
};
std::optional<EvenStages> even_stages(const L& l) {
  const Layers layers = chunk_layers(l);
  const auto chunks = static_cast<std::int64_t>(layers.size());
  for (const std::int64_t less : {1, 0}) {
    const std::int64_t counted = l.job.model.layers + 2 * less;
    const std::int64_t per_stage = (counted + chunks - 1) / chunks;
    if (torchtitan_split(l.job.model.layers, chunks, less) == layers &&
        (counted + per_stage - 1) / per_stage == chunks) {
      return EvenStages{less, per_stage};
    }
  }
  return {};
}

// A field of a split by count.
FieldWriter by_count(std::int64_t EvenStages::*number) {
  return [number](const L& l) {
    const auto even = l.plan.pipeline > 1 ? even_stages(l) : std::nullopt;
    return even ? FieldValue((*even).*number) : FieldValue();
  };
}

FieldValue by_modules(const L& l) {
  const bool needed = l.plan.pipeline > 1 && !even_stages(l);
  return needed ? FieldValue(Expression{module_lists(chunk_layers(l))}) : FieldValue();
}

FieldValue schedule(const L& l) {
  return when(l.plan.pipeline > 1, std::string(kTorchScheduleNames.name_of(l.plan.schedule)));
}

// 1 where all layers of every chunk recompute, k where each k-th does.
std::int64_t recomputed_every(const Layers& layers, std::int64_t recomputed) {
  const auto whole = [&](std::int64_t count) { return recomputed < 0 || recomputed >= count; };
  return std::all_of(layers.begin(), layers.end(), whole) ? 1 : layers.front() / recomputed;
}

bool recomputes_layers(const L& l) {
  return l.plan.recompute != Recompute::kNone && l.plan.recompute_layers != 0;
}

// "op", or the k of every k-th layer; nothing where all or none recompute.
std::string recompute_option(const L& l) {
  if (!recomputes_layers(l)) {
    return "";
  }
  if (l.plan.recompute == Recompute::kSelective) {
    return "op";
  }
  const std::int64_t every = recomputed_every(chunk_layers(l), l.plan.recompute_layers);
  return every == 1 ? "" : std::to_string(every);
}

FieldValue recompute_mode(const L& l) {
  return !recomputes_layers(l) ? "none" : recompute_option(l).empty() ? "full" : "selective";
}

TextList compiled_parts(const L& l) {
  TextList parts;
  if (l.job.framework.compile) {
    parts.emplace_back("model");
  }
  if (l.job.framework.cross_entropy_fusion) {
    parts.emplace_back("loss");
  }
  return parts;
}

// torchtitan's own test tokenizer measures: the vocabulary of a flavor does not follow it.
FieldValue assets(const L& l) {
  const std::string own = torchtitan_model(l).assets;
  return trains(l) ? "./assets/hf/" + (own.empty() ? l.job.model.name : own)
                   : "./tests/assets/tokenizer";
}

std::string expected_log(const LaunchPlan& launch) {
  return fmt::format("memory: {:.2f}GiB (reserved), tps: {:.0f} a GPU (steps of {:.1f} ms)",
                     launch.peak_reserved_gib, launch.tokens_per_second_per_gpu,
                     1e3 * launch.step_seconds);
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): a table
std::span<const Field> torchtitan_fields() {
  static const std::vector<Field> kFields = {
      {"model.name", [](const L& l) { return torchtitan_model(l).name; }},
      {"model.flavor", [](const L& l) { return torchtitan_model(l).flavor; }},
      {"model.hf_assets_path", assets},
      {"model.converters", given(is_fp8, TextList{"quantize.linear.float8"})},
      {"optimizer.name", "AdamW"},
      {"optimizer.lr", Expression{"3e-4"}},
      {"optimizer.beta1", 0.9},
      {"optimizer.beta2", 0.95},
      {"optimizer.eps", Expression{"1e-8"}},
      {"optimizer.weight_decay", 0.1},
      {"optimizer.implementation", "fused"},
      {"lr_scheduler.warmup_steps", warmup_steps},
      {"lr_scheduler.decay_type", "cosine"},
      {"lr_scheduler.min_lr_factor", 0.1},
      // A pipeline is fed the micro-batches of the whole step at once; without one they are
      // accumulated.
      {"training.local_batch_size",
       [](const L& l) {
         return l.plan.micro_batch * (l.plan.pipeline > 1 ? l.plan.micro_batches : 1);
       }},
      {"training.global_batch_size", &Job::global_batch},
      {"training.seq_len", &Job::sequence},
      {"training.max_norm", Expression{"1.0"}},
      {"training.steps", &L::steps},
      {"training.dataset", either(trains, "c4", "c4_test")},
      {"training.dtype",
       [](const L& l) { return l.job.framework.master_bytes == 0 ? "bfloat16" : "float32"; }},
      {"training.mixed_precision_param",
       [](const L& l) {
         return l.job.precision == topologies::Precision::kFp32 ? "float32" : "bfloat16";
       }},
      {"training.mixed_precision_reduce", "float32"},
      {"training.gc_freq", 50},
      {"training.enable_cpu_offload",
       [](const L& l) { return when(l.job.offload.parameters != OffloadTo::kNone, true); }},
      {"parallelism.data_parallel_replicate_degree", &Plan::replicas},
      {"parallelism.data_parallel_shard_degree", &Plan::sharded},
      {"parallelism.fsdp_reshard_after_forward",
       [](const L& l) {
         return when(l.plan.sharding == Sharding::kFull,
                     l.plan.reshard_after_forward ? "always" : "never");
       }},
      {"parallelism.tensor_parallel_degree", &Plan::tensor},
      {"parallelism.disable_loss_parallel",
       [](const L& l) { return l.job.framework.whole_logits && l.plan.tensor > 1; }},
      {"parallelism.enable_async_tensor_parallel",
       [](const L& l) { return l.job.framework.tp_comm_overlap && l.plan.tensor > 1; }},
      {"parallelism.pipeline_parallel_degree", &Plan::pipeline},
      {"parallelism.pipeline_parallel_schedule", schedule},
      {"parallelism.pipeline_parallel_microbatch_size", given(is_pipeline, &Plan::micro_batch)},
      {"parallelism.pipeline_parallel_layers_per_stage", by_count(&EvenStages::per_stage)},
      {"parallelism.pipeline_parallel_first_stage_less_layers", by_count(&EvenStages::less)},
      {"parallelism.pipeline_parallel_last_stage_less_layers", by_count(&EvenStages::less)},
      {"parallelism.module_fqns_per_model_part", by_modules},
      {"parallelism.context_parallel_degree", &Plan::context},
      {"parallelism.context_parallel_rotate_method",
       [](const L& l) {
         return when(l.plan.context > 1 && !l.job.framework.context_gather, "alltoall");
       }},
      {"parallelism.expert_parallel_degree", given(has_experts, &Plan::expert)},
      {"parallelism.expert_tensor_parallel_degree",
       given(has_experts, [](const L& l) { return expert_tensor_of(l.plan); })},
      {"activation_checkpoint.mode", recompute_mode},
      {"activation_checkpoint.selective_ac_option",
       [](const L& l) { return when(!recompute_option(l).empty(), recompute_option(l)); }},
      {"metrics.log_freq", either(trains, 10, 1)},
      {"metrics.enable_tensorboard", trains},
      {"checkpoint.enable", trains},
      {"checkpoint.folder", "checkpoint"},
      {"checkpoint.interval", 500},
      {"checkpoint.last_save_model_only", false},
      {"comm.init_timeout_seconds", 1800},
      {"comm.train_timeout_seconds", 600},
      {"compile.enable", [](const L& l) { return !compiled_parts(l).empty(); }},
      {"compile.components",
       [](const L& l) { return when(!compiled_parts(l).empty(), compiled_parts(l)); }},
      {"quantize.linear.float8.enable_fsdp_float8_all_gather",
       given(is_fp8, &Framework::fp8_parameters)},
      {"quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp",
       given(is_fp8, &Framework::fp8_parameters)},
      {"quantize.linear.float8.filter_fqns", given(is_fp8, TextList{"output"})},
  };
  return kFields;
}

LaunchFile write_torchtitan(const LaunchPlan& launch) {
  const TorchtitanModel model = torchtitan_model(launch);
  LaunchFile file;
  file.command = environment_prefix(launch) + torchrun(launch) +
                 " -m torchtitan.train --job.config_file " + shell_word(launch.file);
  file.text = commented(heading(launch, file.command, "torchtitan v0.2.2, from its folder",
                                expected_log(launch))) +
              "\n" + toml_text(torchtitan_fields(), launch);
  if (trains(launch) && model.assets.empty()) {
    file.remarks.push_back("hf_assets_path must hold the tokenizer of " +
                           printable(launch.job.model.name));
  }
  return file;
}

}  // namespace trireme::planner
