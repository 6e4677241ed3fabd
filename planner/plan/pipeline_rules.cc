// Rules of stages, chunks and their layers. Sources: Megatron-LM's validate_args, torchtitan's
// pipeline code, PyTorch's schedules.
#include <algorithm>
#include <numeric>

#include "planner/plan/rule_checks.h"
#include "planner/plan/stages.h"

namespace trireme::planner {
namespace {

// A longer list of layers helps nobody, and a search that writes one for every split of a deep
// model takes the square of its layers.
constexpr std::int64_t kChunksProposed = 256;

// "; 16,16 would": the same list with another last number, where one is.
std::string list_that_adds_up(const Job& job, const Plan& plan, std::int64_t sum) {
  std::vector<std::int64_t> right = plan.stage_layers;
  right.back() += job.model.layers - sum;
  return right.back() < 0 || std::ssize(right) > kChunksProposed
             ? std::string()
             : fmt::format("; {} would", fmt::join(right, ","));
}

Found check_chunks(const Job& job, const Plan& plan) {
  const std::vector<Chunk> split = chunks_of(job, plan);
  const auto empty = std::find_if(split.begin() + 1, split.end(), [](const Chunk& chunk) {
    return chunk.first == chunk.last && !chunk.head;
  });
  if (empty != split.end()) {
    return broken(Rule::kStagesNonEmpty,
                  "chunk {} of {} has no layer; only the first, which has the embedding, and the "
                  "last, which has the head, may go without",
                  empty - split.begin(), split.size());
  }
  return {};
}

Found check_stage_layers(const Job& job, const Plan& plan) {
  const auto count = static_cast<std::int64_t>(plan.stage_layers.size());
  const std::int64_t chunks = plan.pipeline * plan.virtual_pipeline;
  const std::int64_t sum = std::reduce(plan.stage_layers.begin(), plan.stage_layers.end());
  if (count != chunks && count != plan.pipeline) {
    return broken(Rule::kLayersDivide,
                  "{} stage layer count{} given for pp {} x vpp {}; {}, or --pp {}, would be right",
                  count, count == 1 ? " is" : "s are", plan.pipeline, plan.virtual_pipeline, chunks,
                  count);
  }
  if (sum != job.model.layers) {
    return broken(Rule::kLayersDivide, "stage layers {} add up to {}, the model has {} layers{}",
                  fmt::join(plan.stage_layers, "+"), sum, job.model.layers,
                  list_that_adds_up(job, plan, sum));
  }
  return check_chunks(job, plan);
}

Found check_even_split(const Job& job, const Plan& plan) {
  const std::int64_t layers = job.model.layers;
  const std::int64_t chunks = plan.pipeline * plan.virtual_pipeline;
  if (job.framework.layers_by_cost) {
    return check_chunks(job, plan);
  }
  if (splits_evenly(job, plan)) {
    return {};
  }
  if (chunks > kChunksProposed) {
    return broken(Rule::kLayersDivide,
                  "{} layers do not split evenly over pp {} x vpp {} = {} chunks, nor with "
                  "embedding and head counted",
                  layers, plan.pipeline, plan.virtual_pipeline, chunks);
  }
  std::vector<std::int64_t> proposal(static_cast<std::size_t>(chunks), layers / chunks);
  for (std::int64_t i = 0; i < layers % chunks; ++i) {
    ++proposal[static_cast<std::size_t>((1 + i) % chunks)];  // the first stage holds the embedding
  }
  return broken(Rule::kLayersDivide,
                "{} layers do not split evenly over pp {} x vpp {} = {} chunks, nor with embedding "
                "and head counted; "
                "--stage-layers {} would",
                layers, plan.pipeline, plan.virtual_pipeline, chunks, fmt::join(proposal, ","));
}

}  // namespace

Found check_pipeline(const Job& job, const Plan& plan) {
  const std::int64_t chunks = plan.pipeline * plan.virtual_pipeline;
  if (plan.virtual_pipeline > 1 && plan.pipeline == 1) {
    return broken(Rule::kVirtualNeedsPipeline,
                  "vpp {} needs pp > 1, pp is 1; pp 2 or more, or vpp 1, would be right",
                  plan.virtual_pipeline);
  }
  if (is_in_v(plan.schedule) && plan.pipeline > 1) {
    if (plan.virtual_pipeline != kChunksInV) {
      return broken(Rule::kVirtualNeedsPipeline,
                    "schedule {} has two stages a rank, vpp is {}; vpp 2 would be right",
                    to_string(plan.schedule), plan.virtual_pipeline);
    }
  } else if ((plan.virtual_pipeline > 1) != (plan.schedule == Schedule::kInterleaved) &&
             plan.pipeline > 1) {
    return plan.virtual_pipeline > 1
               ? broken(Rule::kVirtualNeedsPipeline,
                        "schedule {} has one stage a rank, vpp is {}; schedule interleaved, or vpp "
                        "1, would be right",
                        to_string(plan.schedule), plan.virtual_pipeline)
               : broken(Rule::kVirtualNeedsPipeline,
                        "schedule {} needs vpp > 1, vpp is 1; vpp 2 or more, or schedule 1f1b, "
                        "would be right",
                        to_string(plan.schedule));
  }
  if (const std::string fault = prediction_fault(job, plan); !fault.empty()) {
    return broken(Rule::kLayersDivide, "{}", fault);
  }
  // The embedding, the head and prediction modules apart may each have a chunk of their own.
  if (chunks > job.model.layers + (plan.prediction_apart ? 3 : 2)) {
    return broken(Rule::kStagesNonEmpty,
                  "pp {} x vpp {} = {} chunks are more than the {} layers, the embedding and the "
                  "head",
                  plan.pipeline, plan.virtual_pipeline, chunks, job.model.layers);
  }
  if (Found found =
          plan.stage_layers.empty() ? check_even_split(job, plan) : check_stage_layers(job, plan)) {
    return found;
  }
  if (plan.recompute == Recompute::kFull && plan.recompute_layers > job.model.layers) {
    return broken(Rule::kLayersDivide,
                  "recompute of {} layers a stage is more than the model's {}; so many or fewer "
                  "would be right",
                  plan.recompute_layers, job.model.layers);
  }
  return {};
}

// Micro-batches go through looped chunks in groups of pp (Megatron) or of m / max(1, m / pp)
// (PyTorch). DualPipeV fills both halves of its V before it pairs them: PyTorch's ScheduleDualPipeV
// asks for as many as there are stages. ZB-V takes any number.
Found check_interleaving(const Job& job, const Plan& plan) {
  if (plan.virtual_pipeline == 1) {
    return {};
  }
  const std::int64_t count = plan.micro_batches;
  if (is_in_v(plan.schedule)) {
    const std::int64_t stages = plan.pipeline * plan.virtual_pipeline;
    if (plan.schedule != Schedule::kDualPipeV || count >= stages) {
      return {};
    }
    return broken(Rule::kInterleavedMicroBatches,
                  "{} micro-batch{} fewer than the {} stages of schedule {}; {} or more, or "
                  "schedule zb-v, would be right",
                  count, count == 1 ? " is" : "es are", stages, to_string(plan.schedule), stages);
  }
  if (is_torch(job)) {
    const std::int64_t rounds = std::max<std::int64_t>(1, count / plan.pipeline);
    if (count % rounds == 0) {
      return {};
    }
    return broken(Rule::kInterleavedMicroBatches,
                  "{} micro-batches are not divisible by {} rounds of pp {}", count, rounds,
                  plan.pipeline);
  }
  if (count % plan.pipeline == 0) {
    return {};
  }
  return broken(Rule::kInterleavedMicroBatches,
                "{} micro-batch{} not a multiple of pp {}, which interleaving needs", count,
                count == 1 ? " is" : "es are", plan.pipeline);
}

}  // namespace trireme::planner
