// Parameters that one rank holds: the model's tensors after tensor, expert and pipeline
// parallelism, before sharding over data-parallel ranks.
#pragma once

#include <cstdint>

#include "planner/plan/job.h"

namespace trireme::planner {

// Elements of one layer on one rank.
struct LayerParameters {
  double dense = 0;              // everything but routed experts
  double expert = 0;             // routed experts
  double attention_weights = 0;  // of the attention's linear layers
  double linear_weights = 0;     // of all linear layers but routed experts
  double expert_weight = 0;      // of one routed expert
  double largest_weight = 0;     // of one linear layer
};
// Both kinds of layer, the embedding and the head.
struct RankParameters {
  LayerParameters dense_layer, sparse_layer;
  double embedding = 0;  // token and position tables
  double head = 0;       // output matrix and final norm
  double head_matrix = 0;
  double prediction = 0;  // of an extra prediction module, beside its layer
  double vocabulary = 0;  // rows of the output matrix on this rank, padded
};

struct ParameterSplit {
  std::int64_t tensor = 1, expert = 1, expert_tensor = 1;
};
RankParameters rank_parameters(const Job& job, const ParameterSplit& split);

}  // namespace trireme::planner
