// Trireme's own model file: strict JSON, every key known, for presets and for models that no
// config.json describes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/transformer.h"

namespace trireme::models {

// The value of the key "schema" that marks such a file.
inline constexpr const char* kModelSchema = "trireme.transformer/1";

// Throws Error: a key that is missing, unknown, of another type or impossible. `where` names the
// file.
Transformer read_model_file(const nlohmann::json& json, const std::string& where);
// Every field that is not at its default. Reading it back gives an equal model.
nlohmann::ordered_json write_model_file(const Transformer& model);

}  // namespace trireme::models
