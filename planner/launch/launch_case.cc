#include "planner/launch/launch_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "models/model_names.h"
#include "models/presets.h"
#include "planner/launch/launch_command.h"
#include "planner/launch/launch_layout.h"
#include "planner/plan/framework_versions.h"
#include "planner/plan/job_check.h"
#include "planner/plan/moved_offload.h"
#include "planner/plan/names.h"
#include "planner/plan/stages.h"
#include "topologies/cluster.h"
#include "topologies/profile.h"

namespace trireme::planner {
namespace {

// Sourced files may have said what is missing.
std::string unread_text(const LaunchConfig& config) {
  return config.unread.empty() ? ""
                               : fmt::format(" ({}, which it sources, cannot be read)",
                                             fmt::join(config.unread, ", "));
}

void choose_model(const LaunchConfig& config, const LaunchOptions& options, LaunchCase& found) {
  if (!options.model.empty()) {
    found.job.model = models::load_model(options.model);
    if (found.job.model.moe && config.capacity_factor) {  // a choice of the run, not of the model
      found.job.model.moe->capacity_factor = *config.capacity_factor;
    }
  } else if (config.model) {
    found.job.model = *config.model;
  } else if (!config.model_name.empty()) {
    found.job.model = models::load_model(config.model_name);
    found.filled.push_back(fmt::format("model {} by its name in the file", config.model_name));
  } else {
    if (const std::string part = models::undescribed_part(config.model_said); !part.empty()) {
      throw Error(config.source,
                  fmt::format("trains {}, which has {}: no model description here can hold that; a "
                              "model of attention and MLP layers alone would be right",
                              config.model_said, part));
    }
    const bool has_layers = has_setting(config, "num_layers");
    const std::string what =
        has_layers != has_setting(config, "hidden_size")
            ? fmt::format("{} describes a model by its numbers and lacks --{}", config.source,
                          has_layers ? "hidden-size" : "num-layers")
        : config.model_said.empty()
            ? fmt::format("{} does not say which model it trains", config.source)
            : fmt::format("{} names {}, which is no preset here", config.source, config.model_said);
    throw Error("--model",
                fmt::format("is missing; {}{}; a preset (see 'trireme models') or its config.json "
                            "would be right",
                            what, unread_text(config)));
  }
}

void choose_sequence(const LaunchConfig& config, const LaunchOptions& options, LaunchCase& found) {
  const std::int64_t longest =
      found.job.model.max_sequence > 0 ? found.job.model.max_sequence : 4096;
  if (options.sequence || config.sequence) {
    found.job.sequence = options.sequence ? *options.sequence : *config.sequence;
    return;
  }
  found.job.sequence = std::min<std::int64_t>(4096, longest);
  found.filled.push_back(fmt::format("sequence {} (--seq)", found.job.sequence));
}

topologies::Precision precision_of(std::string_view name) {
  return kPrecisionNames.value_of(name).value_or(topologies::Precision::kBf16);
}

// The entry of the file's own program and release, unless the command line names another that
// shards as the file does.
std::string behaviour_of_file(const LaunchConfig& config, const LaunchOptions& options) {
  if (options.framework.empty() && !config.predicted_as.empty()) {
    return config.predicted_as;
  }
  if (options.framework.empty()) {
    return program_of(config.format, config.framework) +
           (config.release.empty() ? "" : "@" + config.release);
  }
  const std::string base = find_framework(options.framework).base;
  if (base != config.framework) {
    throw Error("--framework",
                fmt::format("{} is of {}, and {} starts {}; a release of the latter would be right",
                            options.framework, base, config.source, config.framework));
  }
  return options.framework;
}

void choose_types(const LaunchConfig& config, const LaunchOptions& options, Job& job) {
  const auto said = [](const std::string& beside, const std::string& in_file) {
    return beside.empty() ? in_file : beside;
  };
  job.precision = precision_of(said(options.precision, config.precision));
  job.optimizer = kOptimizerNames.value_of(said(options.optimizer, config.optimizer))
                      .value_or(Optimizer::kAdam);
  job.attention = kAttentionNames.value_of(said(options.attention, config.attention))
                      .value_or(models::AttentionKernel::kFlash);
}

void choose_framework(const LaunchConfig& config, const LaunchOptions& options, LaunchCase& found) {
  Job& job = found.job;
  RecipeCase run = recipe_case_of(job);
  run.tensor = config.layout.tensor.value_or(1) > 1;
  run.pipeline = config.layout.pipeline.value_or(1) > 1;
  job.framework = find_framework(behaviour_of_file(config, options), run);
  if (const std::int64_t threads = host_threads_of(config);
      threads > 0 && !config.offload.empty()) {
    job.framework.host_threads = threads;
  }
  for (const std::vector<std::string>* choices : {&config.choices, &options.settings}) {
    for (const std::string& choice : *choices) {
      const std::size_t cut = choice.find('=');
      if (cut == std::string::npos) {
        throw Error("--set", fmt::format("'{}' has no '='; KEY=VALUE is expected", choice));
      }
      apply_setting(job.framework, choice.substr(0, cut), choice.substr(cut + 1));
    }
  }
  if (leave_out_prediction(job)) {
    found.filled.push_back(
        fmt::format("no extra prediction module ({} trains none)", job.framework.name));
  }
}

void choose_gpus(const LaunchConfig& config, const LaunchOptions& options, LaunchCase& found) {
  Job& job = found.job;
  found.cluster_gpus = job.cluster.gpus;
  if (options.gpus || config.gpus) {
    found.world = options.gpus ? *options.gpus : *config.gpus;
  } else {
    found.world = found.cluster_gpus;
    found.filled.push_back(
        fmt::format("{} GPUs, all of {} (--gpus)", found.world, options.cluster));
  }
  if (found.world > kMostGpus) {
    throw Error(config.source,
                fmt::format("it starts {} ranks; at most 1e9 would be right", found.world));
  }
  if (found.world <= found.cluster_gpus) {
    job.cluster = topologies::narrowed(std::move(job.cluster), found.world);
  }
  const auto& peaks = job.cluster.gpu.peak_dense;
  if (!peaks.contains(job.precision)) {
    found.precision_exists = false;
    job.precision = topologies::Precision::kFp16;
  }
}

void fill_degrees(const LaunchLayout& layout, LaunchCase& found) {
  Plan& plan = found.plan;
  plan.tensor = layout.tensor.value_or(1);
  plan.pipeline = layout.pipeline.value_or(1);
  plan.context = layout.context.value_or(1);
  plan.expert = layout.expert.value_or(1);
  plan.expert_tensor = layout.expert_tensor.value_or(0);
  plan.expert_tensor = plan.expert_tensor == plan.tensor ? 0 : plan.expert_tensor;
  plan.sharding = layout.sharding;
  plan.sharded = plan.sharding == Sharding::kNone ? 1 : layout.sharded.value_or(1);
  plan.replicas = layout.replicas.value_or(1);
  if (layout.shards_in_node && plan.sharding != Sharding::kNone) {
    const std::int64_t ranks =
        std::max<std::int64_t>(1, found.world / (plan.tensor * plan.context));
    plan.sharded = std::gcd(ranks, std::max<std::int64_t>(1, found.job.cluster.node.gpus));
    plan.replicas = ranks / plan.sharded;
    return;
  }
  const std::int64_t left = std::max<std::int64_t>(1, found.world / plan.gpus());
  if (plan.sharding != Sharding::kNone && !layout.sharded) {
    plan.sharded = left;
  } else if (!layout.replicas) {
    plan.replicas = left;
  }
}

// torchtitan: one shard is none, and fully_shard is what sets the type beside tp and pp.
bool is_unsharded(const LaunchConfig& config, const Plan& plan) {
  return !config.unsharded_precision.empty() && plan.sharded * plan.context == 1;
}

void settle_unsharded(const LaunchConfig& config, const LaunchOptions& options, LaunchCase& found) {
  const Plan& plan = found.plan;
  if (is_unsharded(config, plan) && plan.tensor * plan.pipeline > 1 && options.precision.empty()) {
    found.job.precision = precision_of(config.unsharded_precision);
  }
}

void fill_pipeline(const LaunchLayout& layout, LaunchCase& found) {
  Plan& plan = found.plan;
  const std::int64_t layers = found.job.model.layers;
  plan.virtual_pipeline = virtual_stages_of(layout, layers, plan.pipeline);
  plan.stage_layers = split_of(layout, layers, plan.pipeline, plan.virtual_pipeline);
  plan.schedule = layout.schedule.value_or(
      plan.virtual_pipeline > 1 ? Schedule::kInterleaved : Schedule::kOneForwardOneBackward);
  if (plan.pipeline == 1) {
    plan.schedule = Schedule::kOneForwardOneBackward;
  }
  plan.recompute = layout.recompute;
  plan.recompute_layers = layout.recompute_layers;
  plan.recompute_modules = layout.recompute_modules;
  if (layout.recompute_every > 0) {
    const std::int64_t chunk = std::max<std::int64_t>(
        1, layers / std::max<std::int64_t>(1, plan.pipeline * plan.virtual_pipeline));
    plan.recompute_layers = (chunk + layout.recompute_every - 1) / layout.recompute_every;
  }
}

// Recompute that the command line asks for beside a file.
void choose_recompute(const LaunchConfig& config, const LaunchOptions& options, LaunchCase& found) {
  Plan& plan = found.plan;
  const bool said = !options.recompute.empty() || !options.recompute_modules.empty() ||
                    options.recompute_layers.has_value();
  found.recompute_is_open = config.recompute_is_open && !said;
  if (!said) {
    return;
  }
  plan.recompute =
      kRecomputeNames.value_of(options.recompute)
          .value_or(options.recompute_layers ? Recompute::kFull : Recompute::kSelective);
  plan.recompute_layers = options.recompute_layers.value_or(-1);
  if (!options.recompute_modules.empty()) {
    plan.recompute_modules = recompute_modules_in(options.recompute_modules);
  }
}

// What the command line says in place of a setting, which then decides nothing.
bool is_said_beside(std::string_view key, const LaunchOptions& options) {
  if (key == "micro_batch_size" || key == "global_batch_size") {
    return key == "micro_batch_size" ? options.micro_batch.has_value()
                                     : options.global_batch.has_value();
  }
  if (key == "seq_length") {
    return options.sequence.has_value();
  }
  return key.starts_with("recompute_") && !options.recompute.empty();
}

void note_variables_unset(const LaunchConfig& config, const LaunchOptions& options,
                          LaunchCase& found) {
  for (const LaunchSetting& setting : config.unset) {
    if (!has_setting(config, setting.key) && !is_said_beside(setting.key, options)) {
      found.unset.push_back(fmt::format("{} ({}, {})", setting.value, setting.spelled,
                                        line_of(config, setting.line)));
    }
  }
}

void fill_batch(const LaunchConfig& config, const LaunchOptions& options, LaunchCase& found) {
  Plan& plan = found.plan;
  Job& job = found.job;
  const LaunchLayout& layout = config.layout;
  const bool known = options.global_batch || config.global_batch;
  job.global_batch = options.global_batch
                         ? *options.global_batch
                         : config.global_batch.value_or(0) * config.sequences_a_sample;
  if (layout.micro_batch || options.micro_batch) {
    plan.micro_batch = options.micro_batch ? *options.micro_batch
                                           : *layout.micro_batch * config.sequences_a_sample;
  } else if (known && layout.micro_batches) {
    plan.micro_batch = std::max<std::int64_t>(
        1, job.global_batch / (plan.data_parallel() * *layout.micro_batches));
    found.filled.push_back(fmt::format("micro-batch {}", plan.micro_batch));
  } else {
    found.filled.emplace_back("micro-batch 1");
  }
  constexpr double kMostSequences = 1e12;
  if (static_cast<double>(plan.data_parallel()) * static_cast<double>(plan.micro_batch) *
          static_cast<double>(layout.micro_batches.value_or(1)) >
      kMostSequences) {
    throw Error(config.source, fmt::format("its batch is more than {:.0e} sequences; a smaller one "
                                           "would be right",
                                           kMostSequences));
  }
  const std::int64_t together = plan.data_parallel() * plan.micro_batch;
  found.batch_follows = !known;
  if (!known) {
    job.global_batch = together * layout.micro_batches.value_or(1);
    if (!layout.micro_batches || !(layout.micro_batch || options.micro_batch)) {
      found.filled.push_back(fmt::format("global batch {} (--global-batch)", job.global_batch));
    }
  }
  plan.micro_batches = std::max<std::int64_t>(1, job.global_batch / together);
}

}  // namespace

void spread_ranks(const LaunchConfig& config, const LaunchLayout& layout, LaunchCase& found) {
  fill_degrees(layout, found);
  if (is_unsharded(config, found.plan)) {
    found.plan.sharding = Sharding::kNone;
  }
}

LaunchCase make_launch_case(const LaunchConfig& config, const LaunchOptions& options) {
  LaunchCase found;
  choose_model(config, options, found);
  choose_sequence(config, options, found);
  found.job.cluster = topologies::load_cluster(options.cluster);
  choose_types(config, options, found.job);
  found.job.training = config.training;
  choose_framework(config, options, found);
  found.job.profile = options.calibration.empty() ? topologies::shipped_profile()
                                                  : topologies::load_profile(options.calibration);
  choose_gpus(config, options, found);
  if (!config.offload.empty()) {
    found.job.offload = moved_together(
        found.job.framework, parse_offload(fmt::format("{}", fmt::join(config.offload, ","))));
  }
  const LaunchLayout& layout = config.layout;
  double product = 1;
  for (const auto& degree : {layout.tensor, layout.pipeline, layout.context, layout.sharded,
                             layout.replicas, layout.virtual_pipeline}) {
    product *= static_cast<double>(degree.value_or(1));
  }
  if (product > static_cast<double>(kMostGpus)) {
    throw Error(config.source,
                fmt::format("its degrees multiply to {:.3g} ranks; at most {:.0e} would be right",
                            product, static_cast<double>(kMostGpus)));
  }
  spread_ranks(config, layout, found);
  settle_unsharded(config, options, found);
  fill_pipeline(layout, found);
  choose_recompute(config, options, found);
  if (config.offloads_checkpoints && found.plan.recompute == Recompute::kFull) {
    found.job.offload.activations = OffloadTo::kHost;
  }
  note_variables_unset(config, options, found);
  fill_batch(config, options, found);
  Plan& plan = found.plan;
  plan.sequence_parallel = layout.sequence_parallel && plan.tensor > 1;
  plan.reshard_after_forward =
      layout.reshard_after_forward && found.job.framework.reshard_after_forward;
  plan.fsdp_unit = layout.fsdp_unit;
  plan.prediction_apart = layout.prediction_apart && found.job.model.multi_token_layers > 0;
  if (layout.pipeline_before_data) {
    plan.order = {Axis::kTensor, Axis::kContext, Axis::kPipeline, Axis::kSharded, Axis::kReplica};
  }
  check_job(found.job);
  return found;
}

}  // namespace trireme::planner
