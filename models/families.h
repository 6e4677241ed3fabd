// One reader for each family of config.json files. The fields and their defaults are those of the
// family's configuration class in Hugging Face transformers; the parameters that follow from them
// are those of its modelling file.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "models/config_fields.h"
#include "models/transformer.h"

namespace trireme::models {

using FamilyReader = Transformer (*)(ConfigFields& fields);
struct NamedReader {
  const char* model_type;
  FamilyReader read;
};
// nullptr when none of `families` has this model_type.
FamilyReader find_reader(std::span<const NamedReader> families, const std::string& model_type);

// nullptr when no family has this model_type.
FamilyReader dense_family(const std::string& model_type);     // llama and its kin
FamilyReader expert_family(const std::string& model_type);    // mixtures of experts
FamilyReader deepseek_family(const std::string& model_type);  // those of the DeepSeek line
FamilyReader classic_family(const std::string& model_type);   // GPT-2 and its kin
FamilyReader gemma_family(const std::string& model_type);

// The llama reading: gated MLP, RMSNorm, rotary positions, grouped heads. Others start from it.
Transformer read_llama_like(ConfigFields& fields, const ClassDefaults& defaults);
Transformer read_llama(ConfigFields& fields);
// Which layers have experts; those of all layers are not listed.
void set_moe_layers(Transformer& model, const std::function<bool(std::int64_t)>& sparse);
// Which layers see a window only.
void set_sliding_layers(Transformer& model, const std::function<bool(std::int64_t)>& slides);
// EXAONE's windows: three layers of four, or those of sliding_window_pattern or layer_types; the
// last layer sees all.
void read_exaone_windows(ConfigFields& fields, Transformer& model);
// Marks the layers that `layer_types` names as sliding; without the key leaves the model as it is.
void apply_layer_types(ConfigFields& fields, Transformer& model);
// Of Qwen: layers from max_window_layers on slide, where use_sliding_window says so.
void read_qwen_window(ConfigFields& fields, Transformer& model);

// The function of a model whose other fields are read: the family's defaults, then the file.
void read_family_function(ConfigFields& fields, const std::string& model_type, Transformer& model);
// The scaling of rotary positions, from rope_scaling or rope_parameters.
void read_rotary_scaling(ConfigFields& fields, Function& function);
// The first of `names` that is there, under transformers' names of activations (ACT2FN).
void read_activation(ConfigFields& fields, ConfigFields::Names names, Function& function);

}  // namespace trireme::models
