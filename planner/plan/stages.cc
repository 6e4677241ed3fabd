#include "planner/plan/stages.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme::planner {

namespace {

// nanotron's (models/base.py build_model, models/llama.py get_block_compute_costs): blocks go to a
// rank until the cost of all so far, of products with weights as if every head had keys of its own,
// is more than the rank's end; the head's block is the last.
std::vector<std::int64_t> split_by_cost(const models::Transformer& model, std::int64_t chunks) {
  const auto hidden = static_cast<double>(model.hidden);
  const double layer = hidden * static_cast<double>(4 * model.hidden + 3 * model.ffn);
  const auto layers = static_cast<double>(model.layers);
  const double all = layers * layer + hidden * static_cast<double>(model.vocab);
  std::vector<std::int64_t> split(static_cast<std::size_t>(chunks), 0);
  std::size_t chunk = 0;
  for (std::int64_t done = 1; done <= model.layers; ++done) {
    ++split[chunk];
    const double end = all * static_cast<double>(chunk + 1) / static_cast<double>(chunks);
    chunk += static_cast<double>(done) * layer > end && chunk + 1 < split.size() ? 1 : 0;
  }
  return split;
}

// Layers of each chunk when nobody said: even where they divide, as Megatron, DeepSpeed and
// PyTorch's own pipelining do. A remainder is spread with the embedding and the head counted as one
// layer each: torchtitan's generate_llm_fqn_per_model_part (its 126 layers of Llama 405B),
// Megatron's
// --account-for-embedding-in-pipeline-split, BLOOM's 70 layers on 12 stages.
std::vector<std::int64_t> even_split(const Job& job, std::int64_t chunks) {
  const std::int64_t layers = job.model.layers;
  if (layers % chunks == 0) {
    return std::vector<std::int64_t>(static_cast<std::size_t>(chunks), layers / chunks);
  }
  const std::int64_t effective = layers + 2;
  const std::int64_t base = effective / chunks;
  const std::int64_t extra = effective % chunks;
  std::vector<std::int64_t> split;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    split.push_back(base + (chunk < extra ? 1 : 0));
  }
  split.front() = std::max<std::int64_t>(split.front() - 1, 0);
  split.back() = layers;
  for (std::size_t chunk = 0; chunk + 1 < split.size(); ++chunk) {
    split[chunk] = std::min(split[chunk], split.back());
    split.back() -= split[chunk];
  }
  return split;
}

// One entry a stage, where the plan has virtual chunks: each stage's layers evenly over its chunks,
// first chunks longer.
std::vector<std::int64_t> spread_over_chunks(const Plan& plan) {
  std::vector<std::int64_t> split;
  for (std::int64_t chunk = 0; chunk < plan.pipeline * plan.virtual_pipeline; ++chunk) {
    const std::int64_t layers =
        plan.stage_layers[static_cast<std::size_t>(rank_of_chunk(plan, chunk))];
    const bool longer = chunk / plan.pipeline < layers % plan.virtual_pipeline;
    split.push_back(layers / plan.virtual_pipeline + (longer ? 1 : 0));
  }
  return split;
}

}  // namespace

std::int64_t rank_of_chunk(const Plan& plan, std::int64_t chunk) {
  const std::int64_t place = chunk % plan.pipeline;
  const bool comes_back = is_in_v(plan.schedule) && chunk / plan.pipeline % 2 == 1;
  return comes_back ? plan.pipeline - 1 - place : place;
}

std::int64_t chunk_of_rank(const Plan& plan, std::int64_t rank, std::int64_t place) {
  const bool comes_back = is_in_v(plan.schedule) && place % 2 == 1;
  return place * plan.pipeline + (comes_back ? plan.pipeline - 1 - rank : rank);
}

bool leave_out_prediction(Job& job) {
  if (job.model.multi_token_layers == 0 || job.framework.multi_token_prediction) {
    return false;
  }
  job.model.multi_token_layers = 0;
  return true;
}

// Megatron-LM, core/transformer/pipeline_parallel_layer_layout.py: "decoder layers must be placed
// before MTP layers", all of them in one stage.
std::string prediction_fault(const Job& job, const Plan& plan) {
  if (!plan.prediction_apart) {
    return {};
  }
  if (job.model.multi_token_layers == 0 || plan.pipeline == 1 || job.model.tied_embeddings ||
      !is_megatron(job.framework)) {
    return fmt::format(
        "prediction modules apart from the head need Megatron, such modules, pp > 1 and a head "
        "that "
        "is not tied; {} has {} modules, pp is {}",
        job.model.name, job.model.multi_token_layers, plan.pipeline);
  }
  if (plan.stage_layers.empty() || plan.stage_layers.back() != 0) {
    return "prediction modules stand behind every layer: apart from the head they need "
           "--stage-layers whose last number is 0";
  }
  return {};
}

bool shares_table(const Job& job, const Plan& plan) {
  const std::int64_t chunks = plan.pipeline * plan.virtual_pipeline;
  const auto is_behind = [&](std::int64_t chunk) { return rank_of_chunk(plan, chunk) > 0; };
  const bool predicts =
      job.model.multi_token_layers > 0 &&
      is_behind(std::max<std::int64_t>(0, chunks - (plan.prediction_apart ? 2 : 1)));
  return (job.model.tied_embeddings && is_behind(chunks - 1)) || predicts;
}

std::vector<Chunk> chunks_of(const Job& job, const Plan& plan) {
  const std::int64_t count = plan.pipeline * plan.virtual_pipeline;
  std::vector<std::int64_t> made;  // where the plan does not list every chunk
  if (plan.stage_layers.empty()) {
    made = job.framework.layers_by_cost ? split_by_cost(job.model, count) : even_split(job, count);
  } else if (std::ssize(plan.stage_layers) == plan.pipeline && plan.virtual_pipeline > 1) {
    made = spread_over_chunks(plan);
  }
  const std::vector<std::int64_t>& split = made.empty() ? plan.stage_layers : made;
  std::vector<Chunk> chunks;
  chunks.reserve(split.size());
  std::int64_t first = 0;
  for (const std::int64_t layers : split) {
    chunks.push_back(Chunk{.first = first, .last = first + layers});
    first += layers;
  }
  chunks.front().embedding = true;
  chunks.back().head = true;
  const bool apart = plan.prediction_apart && chunks.size() > 1;
  Chunk& predicting = apart ? chunks[chunks.size() - 2] : chunks.back();
  predicting.prediction = job.model.multi_token_layers;
  predicting.last += predicting.prediction;
  if (apart) {
    // The head's own layers, if any, stand behind: numbers go on in the order of the chunks.
    chunks.back().first = predicting.last;
    chunks.back().last = chunks.back().first;
  }
  return chunks;
}

}  // namespace trireme::planner
