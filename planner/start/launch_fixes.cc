// What to write instead: values near the present one are tried against the rules themselves.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "planner/start/launch_rules.h"

namespace trireme::planner {
namespace {

constexpr std::int64_t kDegreesTried = 512;
constexpr std::size_t kShown = 3;

std::int64_t present_value(const LaunchCase& found, Knob knob) {
  if (knob == Knob::kGlobalBatch) {
    return found.job.global_batch;
  }
  return knob == Knob::kSequence ? found.job.sequence : found.plan.*layout_field(knob).degree;
}

// The batch that nobody says and the micro-batches of another number of data-parallel ranks.
void follow_ranks(const LaunchConfig& config, LaunchCase& found) {
  Plan& plan = found.plan;
  const std::int64_t together = plan.data_parallel() * plan.micro_batch;
  if (found.batch_follows) {
    found.job.global_batch = together * config.layout.micro_batches.value_or(1);
  }
  plan.micro_batches = std::max<std::int64_t>(1, found.job.global_batch / together);
}

// The case with one thing changed; the data-parallel ranks and the micro-batches follow.
std::optional<LaunchCase> changed(const LaunchConfig& config, const LaunchCase& found, Knob knob,
                                  std::int64_t value) {
  LaunchCase other = found;
  Plan& plan = other.plan;
  LaunchLayout layout = config.layout;
  const LayoutField& field = layout_field(knob);
  if (knob == Knob::kGlobalBatch) {
    other.job.global_batch = value;
  } else if (knob == Knob::kSequence) {
    other.job.sequence = value;
  } else if (field.read == nullptr || knob == Knob::kMicroBatch) {
    plan.*field.degree = value;
  } else {
    layout.*field.read = value;
  }
  if (layout.tensor.value_or(1) * layout.pipeline.value_or(1) * layout.context.value_or(1) >
      other.world) {
    return {};
  }
  spread_ranks(config, layout, other);
  if (knob == Knob::kPipeline) {
    plan.virtual_pipeline = virtual_stages_of(config.layout, other.job.model.layers, plan.pipeline);
  }
  plan.sequence_parallel = config.layout.sequence_parallel && plan.tensor > 1;
  plan.stage_layers =
      split_of(config.layout, other.job.model.layers, plan.pipeline, plan.virtual_pipeline);
  if (plan.pipeline == 1) {
    plan.schedule = Schedule::kOneForwardOneBackward;
  } else if (is_in_v(plan.schedule)) {
    plan.virtual_pipeline = kChunksInV;
  } else if (knob == Knob::kVirtual || plan.schedule == Schedule::kInterleaved ||
             plan.virtual_pipeline > 1) {
    plan.schedule =
        plan.virtual_pipeline > 1 ? Schedule::kInterleaved : Schedule::kOneForwardOneBackward;
  }
  follow_ranks(config, other);
  return other;
}

std::vector<std::int64_t> candidates(const LaunchCase& found, Knob knob) {
  std::vector<std::int64_t> values;
  if (knob == Knob::kGlobalBatch || knob == Knob::kSequence) {
    // Multiples of what has to divide it, around the present value.
    const Plan& plan = found.plan;
    const std::int64_t step = knob == Knob::kGlobalBatch
                                  ? plan.data_parallel() * plan.micro_batch *
                                        (plan.virtual_pipeline > 1 ? plan.pipeline : 1)
                                  : 2 * plan.context * plan.tensor;
    const std::int64_t near = present_value(found, knob) / step;
    for (std::int64_t i = std::max<std::int64_t>(1, near - 1); i <= near + 2; ++i) {
      values.push_back(i * step);
    }
    return values;
  }
  const std::int64_t most = knob == Knob::kMicroBatch
                                ? std::min<std::int64_t>(found.job.global_batch, kDegreesTried)
                                : std::min(found.world, kDegreesTried);
  for (std::int64_t value = 1; value <= most; ++value) {
    values.push_back(value);
  }
  return values;
}

// The errors of a case: of every layout, and of the framework's tables.
struct Broken {
  std::set<std::string, std::less<>> names;
  std::set<Rule> rules;
};

Broken all_broken(const LaunchConfig& config, const LaunchCase& found) {
  Broken broken;
  for (const Violation& violation : broken_rules(found.job, found.plan)) {
    broken.names.emplace(to_string(violation.rule));
    broken.rules.insert(violation.rule);
  }
  for (const std::span<const LaunchRule> table : rule_tables(config.format)) {
    for (const LaunchRule& rule : table) {
      const std::optional<Finding> finding = rule.check(config, found);
      if (!finding || finding->severity.value_or(rule.severity) != Severity::kError) {
        continue;
      }
      broken.names.emplace(rule.name);
      if (rule.layout_rule) {
        broken.rules.insert(*rule.layout_rule);
      }
    }
  }
  return broken;
}

// The fix as the file's own kind of setting; empty: it has no such key. accelerate's Megatron
// plugin has degrees of its own, and nothing else of accelerate has stages.
std::string spelled_in(const LaunchConfig& config, Knob knob, const std::string& value) {
  const bool plugin = config.format == LaunchFormat::kAccelerate && config.framework == "megatron";
  if (plugin && knob == Knob::kTensor) {
    return "megatron_lm_tp_degree: " + value;
  }
  const bool foreign = plugin ? knob == Knob::kContext : knob == Knob::kPipeline;
  return config.format == LaunchFormat::kAccelerate && foreign
             ? ""
             : spelled(config.format, knob, value);
}

std::string joined(const std::vector<std::int64_t>& values) {
  if (values.size() < 2) {
    return fmt::format("{}", fmt::join(values, ""));
  }
  return fmt::format("{} or {}", fmt::join(values.begin(), values.end() - 1, ", "), values.back());
}

std::string one_or_other(const std::vector<std::string>& fixes) {
  std::string all;
  for (const std::string& fix : fixes) {
    if (!fix.empty()) {
      all += (all.empty() ? "use " : ", or ") + fix;
    }
  }
  return all;
}

// The two sizes of data parallelism by the keys of formats that say both.
struct DataKeys {
  LaunchFormat format;
  const char *replicas, *shards;
};
constexpr DataKeys kDataKeys[] = {
    {LaunchFormat::kTorchtitan, "parallelism.data_parallel_replicate_degree",
     "parallelism.data_parallel_shard_degree"},
    {LaunchFormat::kAccelerate, "parallelism_config.parallelism_config_dp_replicate_size",
     "parallelism_config.parallelism_config_dp_shard_size"}};

// One of the two so that the product is the number of ranks, where the file says the other.
std::string data_size_that_holds(const LaunchConfig& config, const LaunchCase& found,
                                 bool replicas) {
  const auto* keys = std::find_if(std::begin(kDataKeys), std::end(kDataKeys),
                                  [&](const DataKeys& row) { return row.format == config.format; });
  const std::int64_t others =
      found.plan.gpus() / (replicas ? found.plan.replicas : found.plan.sharded);
  if (keys == std::end(kDataKeys) || !config.layout.sharded || found.is_trial || others < 1 ||
      found.world % others != 0) {
    return "";
  }
  const std::string key = replicas ? keys->replicas : keys->shards;
  const std::int64_t value = found.world / others;
  LaunchConfig trial = config;
  (replicas ? trial.layout.replicas : trial.layout.sharded) = value;
  if (!replicas && value > 1) {
    trial.layout.sharding = Sharding::kFull;
  }
  trial.settings.push_back({key, std::to_string(value), key});
  LaunchCase other = found;
  other.is_trial = true;
  const Broken known = all_broken(config, other);
  spread_ranks(trial, trial.layout, other);
  follow_ranks(trial, other);
  const Broken broken = all_broken(trial, other);
  const bool adds = !std::includes(known.names.begin(), known.names.end(), broken.names.begin(),
                                   broken.names.end());
  return adds || broken.rules.contains(Rule::kGpuProduct)
             ? ""
             : fmt::format("{}{}{}", key.substr(key.rfind('.') + 1),
                           config.format == LaunchFormat::kTorchtitan ? " = " : ": ", value);
}

}  // namespace

std::string values_that_hold(const LaunchConfig& config, const LaunchCase& found, Knob knob,
                             Rule rule) {
  if (found.is_trial || spelled_in(config, knob, "").empty()) {
    return "";
  }
  const std::int64_t present = present_value(found, knob);
  LaunchCase before = found;
  before.is_trial = true;
  const Broken known = all_broken(config, before);
  LaunchConfig trial = config;
  std::vector<std::int64_t> hold;
  std::vector<std::int64_t> hold_all;
  for (const std::int64_t value : candidates(found, knob)) {
    if (value == present) {
      continue;
    }
    const auto other = changed(config, before, knob, value);
    if (!other) {
      continue;
    }
    if (knob == Knob::kVirtual) {
      trial.layout.virtual_pipeline = value;  // rows of the tables read it there
      trial.layout.layers_per_virtual_stage = 0;
    }
    const Broken broken = all_broken(trial, *other);
    const bool adds = !std::includes(known.names.begin(), known.names.end(), broken.names.begin(),
                                     broken.names.end());
    if (broken.names.empty()) {
      hold_all.push_back(value);
    } else if (!adds && !broken.rules.contains(rule)) {
      hold.push_back(value);
    }
  }
  std::vector<std::int64_t>& best = hold_all.empty() ? hold : hold_all;
  std::stable_sort(best.begin(), best.end(), [&](std::int64_t a, std::int64_t b) {
    return std::abs(a - present) < std::abs(b - present);
  });
  best.resize(std::min(best.size(), kShown));
  std::sort(best.begin(), best.end());
  return best.empty() ? "" : spelled_in(config, knob, joined(best));
}

std::string fix_of(const LaunchConfig& config, const LaunchCase& found, Rule rule) {
  const auto values = [&](Knob knob) { return values_that_hold(config, found, knob, rule); };
  const Plan& plan = found.plan;
  switch (rule) {
    case Rule::kGpuProduct: {
      const std::int64_t ranks = plan.tensor * plan.pipeline * plan.context;
      const std::int64_t near = std::max<std::int64_t>(1, found.world / ranks) * ranks;
      return one_or_other(
          {data_size_that_holds(config, found, true), data_size_that_holds(config, found, false),
           values(Knob::kTensor), values(Knob::kPipeline), values(Knob::kContext),
           near == found.world ? "" : fmt::format("{} or {} GPUs", near, near + ranks)});
    }
    case Rule::kBatchDivides:
      return one_or_other({values(Knob::kGlobalBatch), values(Knob::kMicroBatch)});
    case Rule::kHeadsDivide:
    case Rule::kKvHeadsDivide:
    case Rule::kFfnDivides:
    case Rule::kHiddenDivides:
    case Rule::kVocabularyDivides:
      return one_or_other({values(Knob::kTensor)});
    case Rule::kLayersDivide:
    case Rule::kStagesNonEmpty:
      return one_or_other(
          {values(Knob::kPipeline), plan.virtual_pipeline > 1 ? values(Knob::kVirtual) : ""});
    case Rule::kVirtualNeedsPipeline:
      return one_or_other({values(Knob::kVirtual), values(Knob::kPipeline)});
    case Rule::kInterleavedMicroBatches:
      return one_or_other(
          {values(Knob::kGlobalBatch), values(Knob::kMicroBatch), values(Knob::kPipeline)});
    case Rule::kSequenceDivides:
      return one_or_other({values(Knob::kSequence), values(Knob::kContext), values(Knob::kTensor)});
    case Rule::kSequenceParallelNeedsTensor:
      return one_or_other({plan.tensor > 1 ? spelled(config.format, Knob::kSequenceParallel, "")
                                           : values(Knob::kTensor)});
    case Rule::kExpertsDivide:
      return one_or_other({values(Knob::kExpert)});
    case Rule::kExpertGrid:
      return one_or_other({values(Knob::kExpert), values(Knob::kExpertTensor)});
    case Rule::kFrameworkFeature:
      return config.framework == "deepspeed" && plan.pipeline > 1 &&
                     plan.sharding > Sharding::kOptimizer
                 ? "use zero_optimization.stage 1"
                 : "";
    case Rule::kShardingNeedsShards:
    case Rule::kTensorLeavesNode:
    case Rule::kMemory:
      break;
  }
  return "";
}

}  // namespace trireme::planner
