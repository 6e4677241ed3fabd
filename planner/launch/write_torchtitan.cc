// Source: torchtitan v0.2.2, config/job_config.py and distributed/pipeline_parallel.py.
#include "planner/launch/write_torchtitan.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/launch/quoting.h"
#include "planner/launch/torchtitan_flavors.h"
#include "planner/launch/torchtitan_refusals.h"
#include "planner/plan/stages.h"

namespace trireme::planner {
namespace {

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
  std::string text = "module_fqns_per_model_part = [\n";
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
  return text + "]\n";
}

// Layers a chunk where every chunk must have as many: torchtitan makes of it the number of chunks.
bool layers_per_stage_gives(std::int64_t counted, std::int64_t chunks, std::int64_t& per_stage) {
  per_stage = (counted + chunks - 1) / chunks;
  return (counted + per_stage - 1) / per_stage == chunks;
}

std::string stage_fields(const LaunchPlan& launch) {
  const Layers layers = chunk_layers(launch);
  const auto chunks = static_cast<std::int64_t>(layers.size());
  for (const std::int64_t less : {1, 0}) {
    std::int64_t per_stage = 0;
    if (torchtitan_split(launch.job.model.layers, chunks, less) == layers &&
        layers_per_stage_gives(launch.job.model.layers + 2 * less, chunks, per_stage)) {
      return fmt::format(
          "pipeline_parallel_layers_per_stage = {}\n"
          "pipeline_parallel_first_stage_less_layers = {}\n"
          "pipeline_parallel_last_stage_less_layers = {}\n",
          per_stage, less, less);
    }
  }
  return module_lists(layers);
}

std::string pipeline_fields(const LaunchPlan& launch) {
  const Plan& plan = launch.plan;
  std::string text = fmt::format("pipeline_parallel_degree = {}\n", plan.pipeline);
  if (plan.pipeline == 1) {
    return text;
  }
  const char* schedule = plan.schedule == Schedule::kGpipe         ? "GPipe"
                         : plan.schedule == Schedule::kInterleaved ? "Interleaved1F1B"
                                                                   : "1F1B";
  text +=
      fmt::format("pipeline_parallel_schedule = \"{}\"\npipeline_parallel_microbatch_size = {}\n",
                  schedule, plan.micro_batch);
  return text + stage_fields(launch);
}

std::string parallelism_section(const LaunchPlan& launch) {
  const Plan& plan = launch.plan;
  const bool sharded = plan.sharding == Sharding::kFull;
  std::string text = fmt::format(
      "[parallelism]\ndata_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n",
      plan.replicas, plan.sharded);
  if (sharded) {
    text += fmt::format("fsdp_reshard_after_forward = \"{}\"\n",
                        plan.reshard_after_forward ? "always" : "never");
  }
  text += fmt::format("tensor_parallel_degree = {}\nenable_async_tensor_parallel = {}\n",
                      plan.tensor, launch.job.framework.tp_comm_overlap && plan.tensor > 1);
  text += pipeline_fields(launch);
  text += fmt::format("context_parallel_degree = {}\n", plan.context);
  if (launch.job.model.moe) {
    text += fmt::format("expert_parallel_degree = {}\nexpert_tensor_parallel_degree = {}\n",
                        plan.expert, plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor);
  }
  return text + "\n";
}

// A pipeline is fed the micro-batches of the whole step at once; without one they are accumulated.
std::string training_section(const LaunchPlan& launch) {
  const Plan& plan = launch.plan;
  const std::int64_t local =
      plan.pipeline > 1 ? plan.micro_batch * plan.micro_batches : plan.micro_batch;
  const Framework& framework = launch.job.framework;
  const bool full = launch.job.precision == topologies::Precision::kFp32;
  return fmt::format(
      "[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\nseq_len = {}\nmax_norm = 1.0\n"
      "steps = {}\ndataset = \"{}\"\ndtype = \"{}\"\nmixed_precision_param = \"{}\"\n"
      "mixed_precision_reduce = \"float32\"\ngc_freq = 50\n\n",
      local, launch.job.global_batch, launch.job.sequence, launch.steps,
      launch.form == LaunchForm::kBenchmark ? "c4_test" : "c4",
      framework.master_bytes == 0 ? "bfloat16" : "float32", full ? "float32" : "bfloat16");
}

// 1 where all layers of every chunk recompute, k where each k-th does.
std::int64_t recomputed_every(const Layers& layers, std::int64_t recomputed) {
  const auto whole = [&](std::int64_t count) { return recomputed < 0 || recomputed >= count; };
  if (std::all_of(layers.begin(), layers.end(), whole)) {
    return 1;
  }
  const std::int64_t every = layers.front() / recomputed;
  for (const std::int64_t count : layers) {
    if (count != every * recomputed) {
      refuse("recompute-layers",
             fmt::format("torchtitan recomputes all layers or every k-th; {} of "
                         "{} is neither; --recompute full would be right",
                         recomputed, count));
    }
  }
  return every;
}

std::string recompute_section(const LaunchPlan& launch) {
  const Plan& plan = launch.plan;
  if (plan.recompute == Recompute::kNone || plan.recompute_layers == 0) {
    return "[activation_checkpoint]\nmode = \"none\"\n\n";
  }
  if (plan.recompute == Recompute::kSelective) {
    return "[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"op\"\n\n";
  }
  const std::int64_t every = recomputed_every(chunk_layers(launch), plan.recompute_layers);
  return every == 1 ? "[activation_checkpoint]\nmode = \"full\"\n\n"
                    : fmt::format(
                          "[activation_checkpoint]\nmode = \"selective\"\n"
                          "selective_ac_option = \"{}\"\n\n",
                          every);
}

std::string compile_section(const Framework& framework) {
  std::vector<std::string> components;
  if (framework.compile) {
    components.emplace_back("\"model\"");
  }
  if (framework.cross_entropy_fusion) {
    components.emplace_back("\"loss\"");
  }
  if (components.empty()) {
    return "[compile]\nenable = false\n";
  }
  return fmt::format("[compile]\nenable = true\ncomponents = [{}]\n", fmt::join(components, ", "));
}

std::string quantize_section(const Job& job) {
  if (job.precision != topologies::Precision::kFp8) {
    return "";
  }
  return fmt::format(
      "\n[quantize.linear.float8]\nenable_fsdp_float8_all_gather = {}\n"
      "precompute_float8_dynamic_scale_for_fsdp = {}\nfilter_fqns = [\"output\"]\n",
      job.framework.fp8_parameters, job.framework.fp8_parameters);
}

// torchtitan's own test tokenizer measures: the vocabulary of a flavor does not follow it.
std::string model_section(const LaunchPlan& launch, const TorchtitanModel& model) {
  const std::string assets =
      launch.form == LaunchForm::kBenchmark
          ? "./tests/assets/tokenizer"
          : "./assets/hf/" + (model.assets.empty() ? launch.job.model.name : model.assets);
  std::string text = fmt::format("[model]\nname = {}\nflavor = {}\nhf_assets_path = {}\n",
                                 quoted(model.name), quoted(model.flavor), quoted(assets));
  if (launch.job.precision == topologies::Precision::kFp8) {
    text += "converters = [\"quantize.linear.float8\"]\n";
  }
  return text + "\n";
}

std::string optimizer_section(const LaunchPlan& launch) {
  return fmt::format(
      "[optimizer]\nname = \"AdamW\"\nlr = 3e-4\nbeta1 = 0.9\nbeta2 = 0.95\neps = 1e-8\n"
      "weight_decay = 0.1\nimplementation = \"fused\"\n\n"
      "[lr_scheduler]\nwarmup_steps = {}\ndecay_type = \"cosine\"\nmin_lr_factor = 0.1\n\n",
      warmup_steps(launch));
}

std::string house_sections(const LaunchPlan& launch) {
  const bool trains = launch.form == LaunchForm::kTraining;
  return fmt::format(
      "[metrics]\nlog_freq = {}\nenable_tensorboard = {}\n"
      "\n[checkpoint]\nenable = {}\nfolder = \"checkpoint\"\ninterval = 500\n"
      "last_save_model_only = false\n"
      "\n[comm]\ninit_timeout_seconds = 1800\ntrain_timeout_seconds = 600\n\n",
      trains ? 10 : 1, trains, trains);
}

std::string expected_log(const LaunchPlan& launch) {
  return fmt::format("memory: {:.2f}GiB (reserved), tps: {:.0f} a GPU (steps of {:.1f} ms)",
                     launch.peak_reserved_gib, launch.tokens_per_second_per_gpu,
                     1e3 * launch.step_seconds);
}

}  // namespace

LaunchFile write_torchtitan(const LaunchPlan& launch) {
  const TorchtitanModel model = torchtitan_model(launch);
  refuse_plans_unknown_to_torchtitan(launch, model);
  LaunchFile file;
  file.command = environment_prefix(launch) + torchrun(launch) +
                 " -m torchtitan.train --job.config_file " + shell_word(launch.file);
  file.text = commented(heading(launch, file.command, "torchtitan v0.2.2, from its folder",
                                expected_log(launch))) +
              "\n" + model_section(launch, model) + optimizer_section(launch) +
              training_section(launch) + parallelism_section(launch) + recompute_section(launch) +
              house_sections(launch) + compile_section(launch.job.framework) +
              quantize_section(launch.job);
  if (launch.form == LaunchForm::kTraining && model.assets.empty()) {
    file.remarks.push_back("hf_assets_path must hold the tokenizer of " +
                           printable(launch.job.model.name));
  }
  return file;
}

}  // namespace trireme::planner
