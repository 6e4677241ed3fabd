// What of a model its job trains, block by block: all weights, those above the frozen layers, or
// low-rank adapters beside frozen weights. Backward runs down to the lowest of it.
#pragma once

#include <cstdint>
#include <string>

#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner::lowering {

struct Trained {
  std::int64_t rank = 0;         // of adapters beside frozen weights; 0: the weights are trained
  std::uint16_t targets = 0;     // products with adapters, AdapterTarget
  std::int64_t first_layer = 0;  // nothing is trained of the layers before
  bool embedding = true;         // tables that the first stage reads
  bool head = true;              // the last norm, and a head with a matrix of its own

  [[nodiscard]] bool weights(std::int64_t layer) const { return rank == 0 && layer >= first_layer; }
  [[nodiscard]] bool adapters(std::int64_t layer, unsigned products) const {
    return rank > 0 && layer >= first_layer && (targets & products) != 0;
  }
  // The lowest block that backward runs through: a layer, or -1, the embedding.
  [[nodiscard]] std::int64_t lowest() const { return embedding ? -1 : first_layer; }
};

Trained trained_of(const Job& job);

// What of the job's training no step program is written for, with what would be right; empty:
// nothing.
std::string untrained_part(const Job& job, const Plan& plan);

}  // namespace trireme::planner::lowering
