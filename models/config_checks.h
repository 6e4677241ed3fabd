// What a config.json may say that no model of its family could be, named by the file's own keys.
#pragma once

#include <string>

#include "models/config_fields.h"
#include "models/transformer.h"

namespace trireme::models {

// Factors of 0, odd rotary widths, layers that there are not, unknown words. Throws Error.
void check_config(const ConfigFields& fields, const Transformer& model);
// check_transformer(), its faults named by the key that the file has for them.
void check_imported(const ConfigFields& fields, const Transformer& model, const std::string& where);

}  // namespace trireme::models
