// AReaL's own split of layers over pipeline stages.
#pragma once

#include <cstdint>
#include <vector>

#include "models/transformer.h"

namespace trireme::planner {

// Layers of each stage in order, so that the stage with the most parameters has as few as can be:
// the first holds `embedding` more, the last `head` more, and each between them a layer at least.
// Empty: there are too few layers for that.
std::vector<std::int64_t> balanced_stages(const std::vector<double>& layers, double embedding,
                                          double head, std::int64_t stages);
// The same of a model whose layers' experts lie over so many ranks.
std::vector<std::int64_t> areal_stages(const models::Transformer& model, std::int64_t stages,
                                       std::int64_t expert_ranks);

}  // namespace trireme::planner
