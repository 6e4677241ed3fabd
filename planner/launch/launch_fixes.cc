// What to write instead: values near the present one are tried against the rules themselves.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "planner/launch/launch_rules.h"

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

// The case with one thing changed; the data-parallel ranks and the micro-batches follow.
std::optional<LaunchCase> changed(const LaunchConfig& config, const LaunchCase& found, Knob knob,
                                  std::int64_t value) {
  LaunchCase other = found;
  Plan& plan = other.plan;
  if (knob == Knob::kGlobalBatch) {
    other.job.global_batch = value;
  } else if (knob == Knob::kSequence) {
    other.job.sequence = value;
  } else {
    plan.*layout_field(knob).degree = value;
  }
  const std::int64_t model_ranks = plan.tensor * plan.pipeline * plan.context;
  if (model_ranks > other.world) {
    return {};
  }
  const std::int64_t data = other.world / model_ranks;
  if (plan.sharding == Sharding::kNone) {
    plan.replicas = data;
  } else if (data % plan.replicas == 0) {
    plan.sharded = data / plan.replicas;
  } else {
    plan.sharded = data;
    plan.replicas = 1;
  }
  if (knob == Knob::kPipeline) {
    plan.virtual_pipeline = virtual_stages_of(config.layout, other.job.model.layers, plan.pipeline);
  }
  plan.sequence_parallel = config.layout.sequence_parallel && plan.tensor > 1;
  plan.stage_layers =
      split_of(config.layout, other.job.model.layers, plan.pipeline, plan.virtual_pipeline);
  if (plan.pipeline == 1) {
    plan.schedule = Schedule::kOneForwardOneBackward;
  } else if (knob == Knob::kVirtual || plan.schedule == Schedule::kInterleaved ||
             plan.virtual_pipeline > 1) {
    plan.schedule =
        plan.virtual_pipeline > 1 ? Schedule::kInterleaved : Schedule::kOneForwardOneBackward;
  }
  plan.micro_batches =
      std::max<std::int64_t>(1, other.job.global_batch / (plan.data_parallel() * plan.micro_batch));
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

std::string joined(const std::vector<std::int64_t>& values) {
  if (values.size() < 2) {
    return fmt::format("{}", fmt::join(values, ""));
  }
  return fmt::format("{} or {}", fmt::join(values.begin(), values.end() - 1, ", "), values.back());
}

std::string either(const std::vector<std::string>& fixes) {
  std::string all;
  for (const std::string& fix : fixes) {
    if (!fix.empty()) {
      all += (all.empty() ? "use " : ", or ") + fix;
    }
  }
  return all;
}

}  // namespace

std::string values_that_hold(const LaunchConfig& config, const LaunchCase& found, Knob knob,
                             Rule rule) {
  if (found.is_trial) {
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
  return best.empty() ? "" : spelled(config.format, knob, joined(best));
}

std::string fix_of(const LaunchConfig& config, const LaunchCase& found, Rule rule) {
  const auto values = [&](Knob knob) { return values_that_hold(config, found, knob, rule); };
  const Plan& plan = found.plan;
  switch (rule) {
    case Rule::kGpuProduct: {
      const std::int64_t ranks = plan.tensor * plan.pipeline * plan.context;
      const std::int64_t near = std::max<std::int64_t>(1, found.world / ranks) * ranks;
      return either({values(Knob::kTensor), values(Knob::kPipeline), values(Knob::kContext),
                     near == found.world ? "" : fmt::format("{} or {} GPUs", near, near + ranks)});
    }
    case Rule::kBatchDivides:
      return either({values(Knob::kGlobalBatch), values(Knob::kMicroBatch)});
    case Rule::kHeadsDivide:
    case Rule::kKvHeadsDivide:
    case Rule::kFfnDivides:
    case Rule::kHiddenDivides:
    case Rule::kVocabularyDivides:
      return either({values(Knob::kTensor)});
    case Rule::kLayersDivide:
    case Rule::kStagesNonEmpty:
      return either(
          {values(Knob::kPipeline), plan.virtual_pipeline > 1 ? values(Knob::kVirtual) : ""});
    case Rule::kVirtualNeedsPipeline:
      return either({values(Knob::kVirtual), values(Knob::kPipeline)});
    case Rule::kInterleavedMicroBatches:
      return either(
          {values(Knob::kGlobalBatch), values(Knob::kMicroBatch), values(Knob::kPipeline)});
    case Rule::kSequenceDivides:
      return either({values(Knob::kSequence), values(Knob::kContext), values(Knob::kTensor)});
    case Rule::kSequenceParallelNeedsTensor:
      return either({plan.tensor > 1 ? spelled(config.format, Knob::kSequenceParallel, "")
                                     : values(Knob::kTensor)});
    case Rule::kExpertsDivide:
      return either({values(Knob::kExpert)});
    case Rule::kExpertGrid:
      return either({values(Knob::kExpert), values(Knob::kExpertTensor)});
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
