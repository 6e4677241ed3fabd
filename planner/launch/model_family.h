// What launch configurations say of a model beyond its dimensions: what the published families
// share, found by the model's name. A model that no family knows gets the frameworks' defaults.
#pragma once

#include <cstdint>
#include <string>

#include "models/transformer.h"

namespace trireme::planner {

struct ModelFamily {
  std::string layer_class;  // of transformers: what FSDP wraps; empty: not known
};

// By a known part of the name, capitals aside: "meta-llama--Meta-Llama-3.1-8B" is a llama-3.
// Source: transformers' modelling files.
ModelFamily model_family(const models::Transformer& model);

}  // namespace trireme::planner
