// axolotl's axes: accelerate's parallelism_config under its own names, and the one of its experts.
#include <fmt/format.h>

#include <algorithm>

#include "models/presets.h"
#include "planner/launch/trainers/trainer.h"

namespace trireme::planner {

namespace {

// Parameters that are no routed expert's, which are counted whole or as those that a token reaches.
double parameters_beside_experts(const models::Transformer& model) {
  const auto all = static_cast<double>(models::parameter_count(model));
  const double asleep = all - static_cast<double>(models::active_parameter_count(model));
  const auto experts = static_cast<double>(model.moe->experts);
  const auto reached = static_cast<double>(model.moe->experts_per_token);
  return all - asleep * experts / std::max(1.0, experts - reached);
}

}  // namespace

void add_axolotl_axes(const TrainerRun& run, LaunchConfig& config) {
  constexpr std::pair<const char*, const char*> kAxes[] = {{"tensor_parallel_size", "tp"},
                                                           {"context_parallel_size", "cp"},
                                                           {"sequence_parallel_degree", "cp"},
                                                           {"dp_shard_size", "dp_shard"},
                                                           {"dp_replicate_size", "dp_replicate"}};
  if (run.program != TrainerProgram::kAxolotl) {
    return;
  }
  for (const auto& [own, axis] : kAxes) {
    if (const LaunchSetting* size = run_setting(run.said, own); size && size->value != "1") {
      put_setting(config, fmt::format("parallelism_config.parallelism_config_{}_size", axis),
                  size->value, size);
    }
  }
  // ranks of its expert axis replicate what is no expert (integrations/expert_parallel/plugin.py)
  const LaunchSetting* experts = run_setting(run.said, "expert_parallel_size");
  const bool replicates = run_setting(run.said, "dp_replicate_size") != nullptr;
  if (experts != nullptr && !replicates && run_setting(run.said, "dp_shard_size") != nullptr) {
    put_setting(config, "parallelism_config.parallelism_config_dp_replicate_size", experts->value,
                experts);
  }
}

void settle_axolotl_axes(const TrainerRun& run, LaunchConfig& config) {
  const bool axes = has_setting(config, "parallelism_config");
  if (run.program == TrainerProgram::kAxolotl && axes &&
      !has_setting(config, "parallelism_config.parallelism_config_dp_shard_size") &&
      !has_setting(config, "parallelism_config.parallelism_config_dp_replicate_size")) {
    config.layout.sharding = Sharding::kFull;
    config.layout.sharded.reset();
  }
}

// axolotl's expert axis (integrations/expert_parallel): its ranks hold different experts, which
// dp_shard_size ranks shard further, and each of them all that is no expert. The plan shards that
// over both axes too; what stands there instead is added as lasting memory.
void read_expert_axis(const TrainerRun& run, LaunchConfig& config) {
  const auto ranks = run.program == TrainerProgram::kAxolotl
                         ? run_count(run.said, "expert_parallel_size")
                         : std::nullopt;
  if (ranks.value_or(1) == 1 || config.model_name.empty() || config.training.has_adapters()) {
    return;
  }
  for (const char* other : {"dp_replicate_size", "tensor_parallel_size", "context_parallel_size",
                            "sequence_parallel_degree"}) {
    if (run_count(run.said, other).value_or(1) > 1) {
      return;
    }
  }
  const models::Transformer model = models::load_model(config.model_name);
  const std::int64_t shards = run_count(run.said, "dp_shard_size").value_or(1);
  const bool sharded = config.layout.sharding == Sharding::kFull;
  if (!model.moe || sharded != (shards > 1)) {
    return;
  }
  std::erase_if(config.foreign,
                [](const std::string& what) { return what.starts_with("expert_parallel_size"); });
  LaunchLayout& layout = config.layout;
  layout.expert = ranks;
  layout.replicas.reset();
  if (shards == 1) {
    return;
  }
  layout.sharded = shards * *ranks;
  layout.replicas = 1;
  const double bytes = config.optimizer == "adam8bit" ? 10 : 16;  // weight, gradient, moments
  const double gib =
      parameters_beside_experts(model) * bytes *
      (1.0 / static_cast<double>(shards) - 1.0 / static_cast<double>(*layout.sharded)) /
      (1024.0 * 1024 * 1024);
  config.choices.push_back(fmt::format("lasting_gib={:.2f}", gib));
  config.remarks.push_back(fmt::format(
      "expert_parallel_size {}: what is no expert stands on each of its ranks, {:.1f} GiB a GPU "
      "more than the plan's layout says, counted as other memory",
      *ranks, gib));
}

}  // namespace trireme::planner
