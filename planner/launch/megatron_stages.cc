// Source: Megatron-LM d98e8a64, core/transformer/transformer_block.py (get_num_layers_to_build) and
// core/transformer/pipeline_parallel_layer_layout.py.
#include "planner/launch/megatron_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "planner/plan/stages.h"

namespace trireme::planner {
namespace {

using Layers = std::vector<std::int64_t>;

bool all_equal(const Layers& layers) {
  return std::all_of(layers.begin(), layers.end(),
                     [&](std::int64_t count) { return count == layers.front(); });
}

// Even once the embedding, the head or both count as a layer.
bool even_with_ends(const Layers& layers, StageSplit& split) {
  for (const auto& [embedding, loss] : {std::pair{true, true}, {true, false}, {false, true}}) {
    Layers counted = layers;
    counted.front() += embedding ? 1 : 0;
    counted.back() += loss ? 1 : 0;
    if (all_equal(counted)) {
      split.account_for_embedding = embedding;
      split.account_for_loss = loss;
      return true;
    }
  }
  return false;
}

// Stages of one chunk whose middle ones are equal.
bool even_between_ends(const Layers& layers, StageSplit& split) {
  const Layers middle(layers.begin() + 1, layers.end() - 1);
  if ((!middle.empty() && !all_equal(middle)) || layers.front() == 0 || layers.back() == 0) {
    return false;
  }
  split.first_stage = layers.front();
  split.last_stage = layers.back();
  return true;
}

// "Et*2|t*3|t*2L": E, t, m, L are embedding, layer, extra prediction module and loss.
std::string layout_text(const std::vector<Chunk>& chunks) {
  std::string text = "E";
  for (const Chunk& chunk : chunks) {
    const std::int64_t layers = chunk.own_layers();
    text += chunk.embedding ? "" : "|";
    text += layers == 0 ? "" : layers == 1 ? "t" : fmt::format("t*{}", layers);
    text += std::string(static_cast<std::size_t>(chunk.prediction), 'm');
  }
  return text + "L";
}

}  // namespace

StageSplit megatron_stages(const LaunchPlan& launch) {
  StageSplit split;
  Layers layers;
  const std::vector<Chunk> chunks = chunks_of(launch.job, launch.plan);
  for (const Chunk& chunk : chunks) {
    layers.push_back(chunk.own_layers());
  }
  const bool one_chunk = launch.plan.virtual_pipeline == 1;
  if (launch.plan.prediction_apart) {
    split.layout = layout_text(chunks);
    return split;
  }
  if (all_equal(layers) || even_with_ends(layers, split) ||
      (one_chunk && even_between_ends(layers, split))) {
    return split;
  }
  split.layout = layout_text(chunks);
  return split;
}

}  // namespace trireme::planner
