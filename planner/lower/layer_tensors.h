// Part of pass 2: the tensors of one layer that this project's kernels know, with their names,
// shapes and cuts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/transformer.h"
#include "planner/lower/expert_tensors.h"
#include "planner/lower/parameters.h"

namespace trireme::planner::lowering {

// Tensors of one layer, those that the tensor group splits first, then norms of heads, then what
// every tensor rank holds whole.
struct LayerTensors {
  std::vector<Tensor> split, head_norms, whole;
};
// `ranks` share the layer; `slots` learn where its tensors lie when they are placed.
LayerTensors layer_tensors(const models::Transformer& model, std::int64_t layer, std::int64_t ranks,
                           LayerSlots& slots);
// Of the layer's adapters: `split` as the products they stand beside; what tensor ranks hold alike
// has gradients that are partial sums, as norms of heads.
LayerTensors adapter_tensors(const models::Transformer& model, const Trained& trained,
                             std::int64_t layer, std::int64_t ranks, LayerSlots& slots);
// A norm's weight and, where the model has one, its bias.
void add_norm(std::vector<Tensor>& tensors, const models::Transformer& model,
              const std::string& name, NormSlots& slots);

}  // namespace trireme::planner::lowering
