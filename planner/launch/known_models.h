// Presets of a shape, and what launch configurations say of the published families beyond their
// dimensions. A model that no family knows gets the frameworks' defaults.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/model_names.h"
#include "models/transformer.h"

namespace trireme::planner {

// The presets of the same shape, in the order of their names. Names, longest sequences and what the
// shape of a training step does not depend on may differ; the vocabulary too when `any_vocabulary`.
std::vector<std::string> presets_of_shape(const models::Transformer& model, bool any_vocabulary);

struct ModelFamily {
  std::string layer_class;  // of transformers: what FSDP wraps; empty: not known
};

// By a known part of the name, capitals aside: "meta-llama--Meta-Llama-3.1-8B" is a llama-3.
// Source: transformers' modelling files.
ModelFamily model_family(const models::Transformer& model);

}  // namespace trireme::planner
