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

struct Spelling {
  const char *megatron, *bridge, *torchtitan, *accelerate;
};
Spelling spelling_of(Knob knob) {
  switch (knob) {
    case Knob::kTensor:
      return {"--tensor-model-parallel-size", "model.tensor_model_parallel_size",
              "parallelism.tensor_parallel_degree", "parallelism_config_tp_size"};
    case Knob::kPipeline:
      return {"--pipeline-model-parallel-size", "model.pipeline_model_parallel_size",
              "parallelism.pipeline_parallel_degree", "megatron_lm_pp_degree"};
    case Knob::kVirtual:
      return {"--num-virtual-stages-per-pipeline-rank",
              "model.virtual_pipeline_model_parallel_size",
              "virtual stages a rank (parallelism.pipeline_parallel_layers_per_stage)", "vpp"};
    case Knob::kContext:
      return {"--context-parallel-size", "model.context_parallel_size",
              "parallelism.context_parallel_degree", "parallelism_config_cp_size"};
    case Knob::kExpert:
      return {"--expert-model-parallel-size", "model.expert_model_parallel_size",
              "parallelism.expert_parallel_degree", "ep"};
    case Knob::kExpertTensor:
      return {"--expert-tensor-parallel-size", "model.expert_tensor_parallel_size",
              "parallelism.expert_tensor_parallel_degree", "etp"};
    case Knob::kMicroBatch:
      return {"--micro-batch-size", "train.micro_batch_size", "training.local_batch_size",
              "the micro-batch"};
    case Knob::kGlobalBatch:
      return {"--global-batch-size", "train.global_batch_size", "training.global_batch_size",
              "the global batch (--global-batch)"};
    case Knob::kSequence:
      return {"--seq-length", "model.seq_length", "training.seq_len", "the sequence (--seq)"};
    case Knob::kSequenceParallel:
      return {"--sequence-parallel", "model.sequence_parallel", "sequence parallelism",
              "megatron_lm_sequence_parallelism"};
  }
  return {"", "", "", ""};
}

std::int64_t Plan::*degree_of_knob(Knob knob) {
  switch (knob) {
    case Knob::kTensor:
      return &Plan::tensor;
    case Knob::kPipeline:
      return &Plan::pipeline;
    case Knob::kVirtual:
      return &Plan::virtual_pipeline;
    case Knob::kContext:
      return &Plan::context;
    case Knob::kExpert:
      return &Plan::expert;
    case Knob::kExpertTensor:
      return &Plan::expert_tensor;
    case Knob::kMicroBatch:
      return &Plan::micro_batch;
    case Knob::kGlobalBatch:
    case Knob::kSequence:
    case Knob::kSequenceParallel:
      break;
  }
  return nullptr;
}

std::int64_t present_value(const LaunchCase& found, Knob knob) {
  if (knob == Knob::kGlobalBatch) {
    return found.job.global_batch;
  }
  return knob == Knob::kSequence ? found.job.sequence : found.plan.*degree_of_knob(knob);
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
    plan.*degree_of_knob(knob) = value;
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

std::string spelled(LaunchFormat format, Knob knob, const std::string& value) {
  const Spelling names = spelling_of(knob);
  switch (format) {
    case LaunchFormat::kMegatron:
      return fmt::format("{}{}{}", names.megatron, value.empty() ? "" : " ", value);
    case LaunchFormat::kMegatronBridge:
      return fmt::format("{}={}", names.bridge, value.empty() ? "true" : value);
    case LaunchFormat::kTorchtitan:
      return fmt::format("{} = {}", names.torchtitan, value);
    case LaunchFormat::kDeepspeed:
      return fmt::format("{} {}",
                         knob == Knob::kTensor        ? "tensor_parallel.autotp_size"
                         : knob == Knob::kMicroBatch  ? "train_micro_batch_size_per_gpu"
                         : knob == Knob::kGlobalBatch ? "train_batch_size"
                                                      : names.accelerate,
                         value);
    case LaunchFormat::kAccelerate:
      return fmt::format("{}: {}", names.accelerate, value);
  }
  return "";
}

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
    case Rule::kShardingNeedsShards:
    case Rule::kFrameworkFeature:
    case Rule::kTensorLeavesNode:
    case Rule::kMemory:
      break;
  }
  return "";
}

}  // namespace trireme::planner
