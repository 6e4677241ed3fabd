// The model presets that ship, and the one door for `--model`: a preset name, a Hugging Face
// config.json, a folder that holds one, or a trireme model file.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/transformer.h"

namespace trireme::models {

std::vector<std::string> preset_names();
// Throws Error: unknown preset (with the nearest names), unreadable or wrong file.
Transformer load_model(const std::string& name_or_path);
// Import of one parsed Hugging Face config.json. `where` names the file in errors.
Transformer import_hugging_face(const nlohmann::json& config, const std::string& where);

}  // namespace trireme::models
