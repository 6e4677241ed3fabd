// Models by their names: presets that launch files mean, and what launch configurations say of the
// published families beyond their dimensions. A model that no family knows gets the frameworks'
// defaults.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/transformer.h"

namespace trireme::planner {

// A name without its marks and capitals: "llama3170b" of "Llama-3.1_70B".
std::string letters_and_digits(std::string_view text);

// The preset whose name occurs in `text` whatever the separators and capitals
// (llama31_70b_pretrain_config, meta-llama/Llama-3.1-70B): the longest; empty when none does.
std::string preset_in(std::string_view text);

// What the models of the family that `text` names have that no description here can hold ("layers
// of linear attention"); empty where nothing is known of the name.
std::string undescribed_part(std::string_view text);

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
