// What torchtitan asks (ParallelDims, pipelining, its tables of models).
#include <fmt/format.h>

#include <algorithm>

#include "planner/launch/torchtitan.h"
#include "planner/start/launch_rules.h"

namespace trireme::planner {
namespace {

using Found = std::optional<Finding>;

// train_spec.model_args[flavor] raises a KeyError, get_train_spec a ValueError; a flavor of another
// release or of one's own is none of the table's.
Found titan_flavor(const LaunchConfig& config, const LaunchCase&) {
  const std::string name = text_setting(config, "model.name");
  const std::string flavor = text_setting(config, "model.flavor");
  const TorchtitanName right = torchtitan_name(name, flavor);
  if (right.family.empty() || (right.family == name && right.flavor == flavor)) {
    return {};
  }
  if (right.family != name) {
    return Finding{fmt::format("torchtitan has no model '{}'", name),
                   fmt::format("use name = \"{}\"", right.family)};
  }
  if (!right.flavor.empty()) {
    return Finding{fmt::format("{} has no flavor '{}'", name, flavor),
                   fmt::format("use flavor = \"{}\"", right.flavor)};
  }
  return Finding{fmt::format("torchtitan v0.2.2's {} has no flavor '{}'", name, flavor),
                 fmt::format("use one of {}, or the code that registers it", right.flavors),
                 Severity::kWarning};
}

TorchtitanName model_of(const LaunchConfig& config) {
  return torchtitan_name(text_setting(config, "model.name"), text_setting(config, "model.flavor"));
}

// train.py: a model whose pipelining_fn is None.
Found titan_pipelines(const LaunchConfig& config, const LaunchCase& found) {
  if (found.plan.pipeline == 1 || model_of(config).pipelines) {
    return {};
  }
  return Finding{fmt::format("torchtitan's code of {} has no pipelining, and pp is {}",
                             model_of(config).family, found.plan.pipeline),
                 "use parallelism.pipeline_parallel_degree = 1"};
}

// models/*/model/args.py: attention other than PyTorch's scaled dot product.
Found titan_context(const LaunchConfig& config, const LaunchCase& found) {
  if (found.plan.context == 1 || !model_of(config).flex_attention) {
    return {};
  }
  return Finding{fmt::format("{} {} runs attention that has no context parallelism, and cp is {}",
                             model_of(config).family, model_of(config).flavor, found.plan.context),
                 "use parallelism.context_parallel_degree = 1"};
}

// distributed/tensor_parallel.py, maybe_enable_async_tp.
Found titan_async(const LaunchConfig& config, const LaunchCase& found) {
  const bool compiled = is_on(config, "compile.enable") || is_on(config, "training.compile");
  const bool layers =
      text_setting(config, "compile.components", "model loss").find("model") != std::string::npos;
  if (found.plan.tensor == 1 || !is_on(config, "parallelism.enable_async_tensor_parallel") ||
      (compiled && layers)) {
    return {};
  }
  return Finding{"async tensor parallelism without compiled layers",
                 "set [compile] enable = true, with \"model\" among its components"};
}

Found titan_experts(const LaunchConfig& config, const LaunchCase& found) {
  const Plan& plan = found.plan;
  const std::int64_t grid = plan.sharded * plan.context * plan.tensor;
  if (plan.expert == 1 || grid % plan.expert == 0) {
    return {};
  }
  return Finding{fmt::format("ep {} does not divide dp_shard {} x cp {} x tp {} = {}", plan.expert,
                             plan.sharded, plan.context, plan.tensor, grid),
                 fix_of(config, found, Rule::kExpertGrid)};
}

// How many stages a rank may hold.
struct StagesOfRank {
  std::int64_t least = 1, most = 1;
  const char* words = "1";
};
StagesOfRank stages_of_rank(std::string_view schedule) {
  if (schedule == "1F1B" || schedule == "GPipe") {
    return {};
  }
  const std::optional<Schedule> known = kTorchScheduleNames.value_of(schedule);
  if (known && is_in_v(*known)) {
    return {kChunksInV, kChunksInV, "exactly 2"};
  }
  return {2, 1'000'000, "2 or more"};
}

// generate_llm_fqn_per_model_part: embedding and head count as so many layers, and neither may be
// more than a stage has.
Found titan_ends(const LaunchConfig& config, const LaunchCase& found) {
  const LaunchLayout& layout = config.layout;
  const std::int64_t stages = found.plan.pipeline * found.plan.virtual_pipeline;
  if (found.plan.pipeline == 1 || has_setting(config, "parallelism.module_fqns_per_model_part")) {
    return {};
  }
  const std::int64_t layers = found.job.model.layers;
  const auto each = [&](std::int64_t first, std::int64_t last) {
    return (layers + first + last) / stages;
  };
  const std::int64_t first = layout.first_chunk_less;
  const std::int64_t last = layout.last_chunk_less;
  if (std::max(first, last) <= each(first, last)) {
    return {};
  }
  const bool head = last > each(first, last);
  std::int64_t good = 0;
  const auto holds = [&](std::int64_t less) {
    const std::int64_t other = head ? std::min(first, less) : std::min(last, less);
    return less <= each(less, other);
  };
  while (holds(good + 1) && good < layers) {
    ++good;
  }
  const char* key = head ? "pipeline_parallel_last_stage_less_layers"
                         : "pipeline_parallel_first_stage_less_layers";
  return Finding{
      fmt::format("the {} counts as {} layers ({}), and a stage has {} of {} with those counted",
                  head ? "head" : "embedding", head ? last : first, key, each(first, last),
                  layers + first + last),
      fmt::format("use parallelism.{} = {}{}", key, good, good > 0 ? " or less" : "")};
}

// Its dataclasses have no other fields (ConfigManager._dict_to_dataclass raises a ValueError); a
// fork's or a newer release's may.
Found titan_other_keys(const LaunchConfig& config, const LaunchCase&) {
  if (has_setting(config, "job.custom_config_module") ||
      has_setting(config, "experimental.custom_args_module")) {
    return {};
  }
  std::vector<std::string> others;
  for (const LaunchSetting& setting : config.unknown) {
    if (setting.meant.empty()) {
      others.push_back(fmt::format("{} ({})", setting.spelled, place_of(config, setting)));
    }
  }
  if (others.empty()) {
    return {};
  }
  return Finding{fmt::format("torchtitan v0.2.2 has no {}, and refuses keys that it does not have",
                             fmt::join(others, ", ")),
                 "leave them out, or start the release, fork or job.custom_config_module that has "
                 "them"};
}

Found titan_stages(const LaunchConfig& config, const LaunchCase& found) {
  const LaunchLayout& layout = config.layout;
  const std::int64_t pipeline = found.plan.pipeline;
  const std::int64_t each = layout.layers_per_virtual_stage;
  if (pipeline == 1 || each == 0) {
    return {};
  }
  const std::string_view schedule = torchtitan_schedule(config);
  if (schedule.empty()) {
    return {};  // another row says so
  }
  const StagesOfRank allowed = stages_of_rank(schedule);
  const std::int64_t all =
      found.job.model.layers + layout.first_chunk_less + layout.last_chunk_less;
  const auto holds = [&](std::int64_t layers) {
    const std::int64_t stages = (all + layers - 1) / layers;
    return stages % pipeline == 0 && stages / pipeline >= allowed.least &&
           stages / pipeline <= allowed.most;
  };
  if (holds(each)) {
    return {};
  }
  std::int64_t good = all;
  while (good > 0 && !holds(good)) {
    --good;
  }
  const std::int64_t stages = (all + each - 1) / each;
  return Finding{
      fmt::format(
          "{} layers (embedding and head counted) in stages of {} make {} stages over pp {}; "
          "schedule {} needs {} a rank",
          all, each, stages, pipeline, schedule, allowed.words),
      good > 0 ? fmt::format("use parallelism.pipeline_parallel_layers_per_stage = {}", good)
               : "use another parallelism.pipeline_parallel_degree"};
}

// PyTorch's get_schedule_class raises a ValueError. A schedule of a CSV file needs no name.
Found titan_schedule_name(const LaunchConfig& config, const LaunchCase& found) {
  if (found.plan.pipeline == 1 || !torchtitan_schedule(config).empty() ||
      !text_setting(config, "parallelism.pipeline_parallel_schedule_csv").empty()) {
    return {};
  }
  return Finding{fmt::format("there is no schedule {}",
                             text_setting(config, "parallelism.pipeline_parallel_schedule")),
                 fmt::format("use one of {}", fmt::join(torchtitan_schedules(), ", "))};
}

// seq % (tp * 2 * cp), the factor 2 cp also where cp is 1.
Found titan_sequence(const LaunchConfig& config, const LaunchCase& found) {
  const std::int64_t parts = found.plan.tensor * 2 * found.plan.context;
  const std::int64_t sequence = found.job.sequence;
  if (sequence % parts == 0) {
    return {};
  }
  return Finding{fmt::format("sequence {} is not divisible by tp {} x 2 x cp {} = {}", sequence,
                             found.plan.tensor, found.plan.context, parts),
                 "use " + spelled(config.format, Knob::kSequence,
                                  fmt::format("{} or {}", std::max(parts, sequence / parts * parts),
                                              (sequence / parts + 1) * parts))};
}

std::int64_t local_batch(const LaunchConfig& config) {
  return integer_setting(config, "training.local_batch_size")
      .value_or(integer_setting(config, "training.batch_size").value_or(8));
}

std::int64_t pipeline_micro_batch(const LaunchConfig& config) {
  return integer_setting(config, "parallelism.pipeline_parallel_microbatch_size").value_or(1);
}

// Of one stage a rank as many as stages; of DualPipeV too, which has two.
std::int64_t least_micro_batches(const LaunchConfig& config, std::int64_t ranks) {
  const std::string_view schedule = torchtitan_schedule(config);
  return schedule == "1F1B" || schedule == "GPipe" ? ranks
         : schedule == "DualPipeV"                 ? kChunksInV * ranks
                                                   : 1;
}

// PyTorch's PipelineScheduleSingle and ScheduleDualPipeV (distributed/pipelining/schedules.py)
// raise a ValueError; in releases before 2.7 the ranks wait for ever.
Found titan_fills_pipeline(const LaunchConfig& config, const LaunchCase& found) {
  const std::int64_t stages = least_micro_batches(config, found.plan.pipeline);
  const std::int64_t micro = pipeline_micro_batch(config);
  const std::int64_t count = integer_setting(config, "parallelism.pipeline_parallel_microbatches")
                                 .value_or(std::max<std::int64_t>(1, local_batch(config) / micro));
  if (found.plan.pipeline == 1 || count >= stages) {
    return {};
  }
  const bool older = has_setting(config, "parallelism.pipeline_parallel_microbatches");
  return Finding{
      fmt::format("{} micro-batches for {} stages, and schedule {} needs as many as stages", count,
                  stages, torchtitan_schedule(config)),
      older ? fmt::format("use pipeline_parallel_microbatches = {} or more", stages)
            : fmt::format("use training.local_batch_size = {} or more", stages * micro)};
}

Found titan_micro_batches(const LaunchConfig& config, const LaunchCase& found) {
  const std::int64_t local = local_batch(config);
  const std::int64_t micro = pipeline_micro_batch(config);
  if (found.plan.pipeline == 1) {
    return {};
  }
  if (local % micro != 0) {
    return Finding{fmt::format("local batch {} is not divisible by the pipeline's micro-batch {}",
                               local, micro),
                   "use parallelism.pipeline_parallel_microbatch_size = 1"};
  }
  const std::int64_t stages = found.plan.pipeline * found.plan.virtual_pipeline;
  if (local / micro >= stages || least_micro_batches(config, found.plan.pipeline) > 1) {
    return {};  // the row before says more
  }
  return Finding{fmt::format("{} micro-batches for {} stages: more than the usual bubble",
                             local / micro, stages),
                 fmt::format("use training.local_batch_size = {} or more", stages * micro),
                 Severity::kWarning};
}

// maybe_enable_amp: neither fully_shard nor autocast sets a type there (up to v0.2.2).
Found titan_precision(const LaunchConfig& config, const LaunchCase& found) {
  const Plan& plan = found.plan;
  if (plan.sharding != Sharding::kNone || plan.context > 1 || plan.tensor * plan.pipeline == 1 ||
      config.precision == config.unsharded_precision) {
    return {};
  }
  return Finding{
      fmt::format(
          "tp {} and pp {} run without sharding, where mixed_precision_param has no effect: "
          "it trains in {}, not {}",
          plan.tensor, plan.pipeline, config.unsharded_precision, config.precision),
      "set training.dtype = \"bfloat16\" (no fp32 copy is kept then), or "
      "parallelism.data_parallel_shard_degree to 2 or more"};
}

constexpr LaunchRule kTorchtitanRules[] = {
    {"models and flavors that torchtitan has", Severity::kError, {}, titan_flavor},
    {"models that torchtitan cuts into stages", Severity::kError, {}, titan_pipelines},
    {"attention with context parallelism", Severity::kError, {}, titan_context},
    {"async tensor parallelism needs compile", Severity::kError, {}, titan_async},
    {"keys that torchtitan has", Severity::kError, {}, keys_known},
    {"values that torchtitan takes", Severity::kError, {}, values_known},
    {"mixed precision needs sharding", Severity::kWarning, {}, titan_precision},
    {"(dp_shard * cp * tp) % ep", Severity::kError, Rule::kExpertGrid, titan_experts},
    {"pipeline_parallel_schedule", Severity::kError, {}, titan_schedule_name},
    {"embedding and head in a stage", Severity::kError, {}, titan_ends},
    {"keys that torchtitan v0.2 has", Severity::kWarning, {}, titan_other_keys},
    {"stages % pp", Severity::kError, Rule::kVirtualNeedsPipeline, titan_stages},
    {"seq % (tp * 2 * cp)", Severity::kError, Rule::kSequenceDivides, titan_sequence},
    {"micro-batches >= stages", Severity::kError, Rule::kInterleavedMicroBatches,
     titan_fills_pipeline},
    {"local batch % pipeline micro-batch", Severity::kError, {}, titan_micro_batches},
};

}  // namespace

std::span<const LaunchRule> torchtitan_rules() {
  return kTorchtitanRules;
}

}  // namespace trireme::planner
