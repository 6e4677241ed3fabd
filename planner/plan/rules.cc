// Rules of the shapes first, then what each framework cannot run. Sources: Megatron-LM's
// validate_args and parallel layers, torchtitan's ParallelDims and pipeline code, PyTorch's
// schedules, DeepSpeed's PipelineEngine.
#include "planner/plan/rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/plan/rule_checks.h"

namespace trireme::planner {
namespace {

Found check_product(const Job& job, const Plan& plan) {
  if (plan.gpus() == job.cluster.gpus) {
    return {};
  }
  return broken(Rule::kGpuProduct,
                "tp {} x pp {} x cp {} x fsdp {} x dp {} = {} ranks, but {} GPUs are given",
                plan.tensor, plan.pipeline, plan.context, plan.sharded, plan.replicas, plan.gpus(),
                job.cluster.gpus);
}

// "micro-batch 8, or ": the largest below the plan's.
std::string micro_batch_that_divides(const Job& job, const Plan& plan) {
  const std::int64_t sequences = job.global_batch / plan.data_parallel();
  if (job.global_batch % plan.data_parallel() != 0) {
    return {};
  }
  std::int64_t size = std::min(sequences, plan.micro_batch);
  while (sequences % size != 0) {
    --size;
  }
  return fmt::format("micro-batch {}, or ", size);
}

Found check_batch(const Job& job, const Plan& plan) {
  const std::int64_t step = plan.data_parallel() * plan.micro_batch;
  if (job.global_batch % step != 0) {
    const std::int64_t below = std::max(step, job.global_batch / step * step);
    return broken(Rule::kBatchDivides,
                  "global batch {} is not divisible by data parallel {} x micro-batch {} = {}; "
                  "{}global batch {} or {} would be",
                  job.global_batch, plan.data_parallel(), plan.micro_batch, step,
                  micro_batch_that_divides(job, plan), below, below + step);
  }
  if (plan.micro_batches != job.global_batch / step) {
    return broken(Rule::kBatchDivides,
                  "global batch {} over {} sequences at a time is {} micro-batches, not {}",
                  job.global_batch, step, job.global_batch / step, plan.micro_batches);
  }
  return {};
}

Found check_sharding(const Job&, const Plan& plan) {
  if (plan.sharding == Sharding::kNone && plan.sharded > 1) {
    return broken(Rule::kShardingNeedsShards,
                  "fsdp {} with sharding none has nothing to shard; give --sharding or dp {}",
                  plan.sharded, plan.sharded);
  }
  return {};
}

Found check_tensor_split(const Job& job, const Plan& plan) {
  const models::Transformer& model = job.model;
  const std::int64_t tensor = plan.tensor;
  if (model.heads % tensor != 0) {
    return broken(Rule::kHeadsDivide, "{} attention heads are not divisible by tp {}", model.heads,
                  tensor);
  }
  const bool replicated =
      tensor % model.kv_heads == 0 && !is_torch(job);  // Megatron copies KV heads
  if (!model.latent && model.kv_heads % tensor != 0 && !replicated) {
    return broken(Rule::kKvHeadsDivide, "{} key-value heads are not divisible by tp {}{}",
                  model.kv_heads, tensor,
                  is_torch(job) ? fmt::format(" ({} does not copy them)", job.framework.name) : "");
  }
  if (model.ffn % tensor != 0) {
    return broken(Rule::kFfnDivides, "MLP size {} is not divisible by tp {}", model.ffn, tensor);
  }
  if (model.hidden % tensor != 0) {
    return broken(Rule::kHiddenDivides, "hidden size {} is not divisible by tp {}", model.hidden,
                  tensor);
  }
  return {};
}

Found check_sequence(const Job& job, const Plan& plan) {
  if (plan.sequence_parallel && plan.tensor == 1) {
    return broken(Rule::kSequenceParallelNeedsTensor, "sequence parallelism needs tp > 1, tp is {}",
                  plan.tensor);
  }
  // Causal balance cuts the sequence in 2 cp chunks.
  if (plan.context > 1 && job.sequence % (2 * plan.context) != 0) {
    return broken(Rule::kSequenceDivides, "sequence {} is not divisible by 2 x cp {} = {}",
                  job.sequence, plan.context, 2 * plan.context);
  }
  const std::int64_t heads = job.model.heads / plan.tensor;
  if (plan.context > 1 && job.framework.context_all_to_all && heads % plan.context != 0) {
    return broken(Rule::kHeadsDivide,
                  "{} attention heads / tp {} are not divisible by cp {}, over "
                  "which {} exchanges them",
                  job.model.heads, plan.tensor, plan.context, job.framework.name);
  }
  const std::int64_t local = job.sequence / plan.context;
  if (plan.sequence_parallel && local % plan.tensor != 0) {
    return broken(Rule::kSequenceDivides,
                  "sequence {} / cp {} = {} is not divisible by tp {} of sequence parallelism",
                  job.sequence, plan.context, local, plan.tensor);
  }
  if (job.model.position == models::Position::kLearned && job.sequence > job.model.max_sequence) {
    return broken(Rule::kSequenceDivides,
                  "sequence {} is longer than the {} learned positions of {}", job.sequence,
                  job.model.max_sequence, job.model.name);
  }
  return {};
}

// Whether a stage's ranks are a run: no axis of theirs lies outside the pipeline's.
bool has_stages_outermost(const Plan& plan) {
  const auto* pipeline = std::find(plan.order.begin(), plan.order.end(), Axis::kPipeline);
  return plan.pipeline == 1 || std::all_of(pipeline + 1, plan.order.end(),
                                           [&](Axis axis) { return degree_of(plan, axis) == 1; });
}

Found check_experts(const Job& job, const Plan& plan) {
  if (!job.model.moe) {
    if (plan.expert > 1) {
      return broken(Rule::kExpertsDivide, "ep {} needs a model with experts; {} has none",
                    plan.expert, job.model.name);
    }
    return {};
  }
  const models::MixtureOfExperts& moe = *job.model.moe;
  const std::int64_t expert_tensor = plan.expert_tensor == 0 ? plan.tensor : plan.expert_tensor;
  if (moe.experts % plan.expert != 0) {
    return broken(Rule::kExpertsDivide, "{} experts are not divisible by ep {}", moe.experts,
                  plan.expert);
  }
  if (moe.expert_ffn % expert_tensor != 0) {
    return broken(Rule::kFfnDivides, "expert MLP size {} is not divisible by etp {}",
                  moe.expert_ffn, expert_tensor);
  }
  const std::int64_t grid = plan.tensor * plan.context * plan.data_parallel();
  if (grid % (expert_tensor * plan.expert) != 0) {
    return broken(Rule::kExpertGrid, "etp {} x ep {} does not divide the {} ranks of a stage",
                  expert_tensor, plan.expert, grid);
  }
  if (is_megatron(job.framework) && !has_stages_outermost(plan) && !may_put_stages_inside(plan)) {
    return broken(Rule::kExpertGrid,
                  "with pp inside dp Megatron-Core asserts that etp {} x ep {} is tp x cp, {}",
                  expert_tensor, plan.expert, plan.tensor * plan.context);
  }
  if (plan.tensor > 1 && !plan.sequence_parallel && is_megatron(job.framework)) {
    return broken(Rule::kSequenceParallelNeedsTensor,
                  "Megatron's experts with tp {} need sequence parallelism", plan.tensor);
  }
  return {};
}

Found missing(const Job& job, std::string_view what, std::string_view instead) {
  return broken(Rule::kFrameworkFeature, "{} has no {}; {}", job.framework.name, what, instead);
}

Found check_framework_sharding(const Job& job, const Plan& plan) {
  const Sharder sharder = job.framework.sharder;
  const bool states_only = plan.sharding == Sharding::kOptimizer;
  const bool with_gradients = plan.sharding == Sharding::kGradients;
  if (sharder == Sharder::kBuffers && plan.sharding > Sharding::kOptimizer) {
    return missing(job, fmt::format("sharding {}", to_string(plan.sharding)),
                   "use sharding optimizer, or --framework megatron-fsdp");
  }
  if (is_torch(job) && states_only) {
    return missing(job, "sharding of the optimizer alone", "use sharding full or none");
  }
  if (sharder == Sharder::kFsdp2 && with_gradients) {
    return missing(job, "sharding gradients",
                   "use sharding full with --set reshard_after_forward=false");
  }
  if (sharder == Sharder::kZero && plan.pipeline > 1 && plan.sharding > Sharding::kOptimizer) {
    return missing(job,
                   fmt::format("sharding {} with pp {}", to_string(plan.sharding), plan.pipeline),
                   "its pipeline engine runs with ZeRO stage 1 at most (sharding optimizer)");
  }
  return {};
}

Found check_framework_pipeline(const Job& job, const Plan& plan) {
  if (plan.pipeline == 1) {
    return {};
  }
  if (is_megatron(job.framework) && plan.schedule == Schedule::kGpipe) {
    return missing(job, "GPipe schedule", "use 1f1b or interleaved");
  }
  if (job.framework.sharder == Sharder::kZero &&
      plan.schedule != Schedule::kOneForwardOneBackward) {
    return missing(job, fmt::format("{} schedule", to_string(plan.schedule)),
                   "its pipeline engine runs 1f1b");
  }
  const bool split_backward =
      splits_every_backward(plan.schedule) || plan.schedule == Schedule::kDualPipeV;
  if (split_backward && job.framework.compile && is_torch(job)) {
    return missing(job, fmt::format("{} schedule under compile", to_string(plan.schedule)),
                   "PyTorch's split backward does not work on compiled blocks");
  }
  return {};
}

using Check = Found (*)(const Job&, const Plan&);
// What no list of layers mends comes before how layers lie in the stages.
constexpr Check kChecks[] = {check_product,
                             check_sharding,
                             check_tensor_split,
                             check_sequence,
                             check_experts,
                             check_pipeline,
                             check_batch,
                             check_interleaving,
                             check_framework_sharding,
                             check_framework_pipeline};

}  // namespace

std::string_view to_string(Rule rule) {
  switch (rule) {
    case Rule::kGpuProduct:
      return "gpus = tp * pp * cp * fsdp * dp";
    case Rule::kBatchDivides:
      return "global_batch % (dp * micro_batch)";
    case Rule::kHeadsDivide:
      return "heads % tp";
    case Rule::kKvHeadsDivide:
      return "kv_heads % tp";
    case Rule::kFfnDivides:
      return "ffn % tp";
    case Rule::kHiddenDivides:
      return "hidden % tp";
    case Rule::kVocabularyDivides:
      return "vocab % tp";
    case Rule::kLayersDivide:
      return "layers % (pp * vpp)";
    case Rule::kStagesNonEmpty:
      return "pp * vpp <= layers";
    case Rule::kVirtualNeedsPipeline:
      return "vpp of pp and schedule";
    case Rule::kInterleavedMicroBatches:
      return "micro_batches % pp";
    case Rule::kSequenceDivides:
      return "seq % (cp * tp)";
    case Rule::kSequenceParallelNeedsTensor:
      return "sequence_parallel needs tp";
    case Rule::kShardingNeedsShards:
      return "fsdp needs sharding";
    case Rule::kExpertsDivide:
      return "experts % ep";
    case Rule::kExpertGrid:
      return "(tp * cp * dp) % (etp * ep)";
    case Rule::kFrameworkFeature:
      return "framework feature";
    case Rule::kTensorLeavesNode:
      return "tp inside the node";
    case Rule::kMemory:
      return "memory";
  }
  return "";
}

// Megatron splits layers evenly, or evenly with the embedding, the head or both counted as a layer;
// the others spread a remainder over stages of one chunk.
bool may_put_stages_inside(const Plan& plan) {
  const std::int64_t expert_tensor = plan.expert_tensor == 0 ? plan.tensor : plan.expert_tensor;
  return expert_tensor * plan.expert == plan.tensor * plan.context;
}

bool splits_evenly(const Job& job, const Plan& plan) {
  const std::int64_t layers = job.model.layers;
  const std::int64_t chunks = plan.pipeline * plan.virtual_pipeline;
  return layers % chunks == 0 || (layers + 2) % chunks == 0 ||
         (plan.virtual_pipeline == 1 && !is_megatron(job.framework));
}

// Megatron's layout strings, torchtitan's lists of modules, this project's own runtime. DeepSpeed's
// and accelerate's files say nothing of stages.
bool takes_any_split(const Job& job) {
  const Sharder sharder = job.framework.sharder;
  return is_megatron(job.framework) || sharder == Sharder::kFsdp2 || sharder == Sharder::kTrireme;
}

std::optional<Violation> check_plan(const Job& job, const Plan& plan) {
  for (const Check check : kChecks) {
    if (Found found = check(job, plan)) {
      return found;
    }
  }
  return {};
}

std::vector<Violation> broken_rules(const Job& job, const Plan& plan) {
  std::vector<Violation> all;
  for (const Check check : kChecks) {
    if (Found found = check(job, plan)) {
      all.push_back(std::move(*found));
    }
  }
  return all;
}

}  // namespace trireme::planner
