// Words of a config.json that name a part of the function: activations, scalings of rotary
// positions.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "models/families.h"

namespace trireme::models {

// The scaling of rotary positions under the names of old and new files.
void read_rotary_scaling(ConfigFields& fields, Function& function) {
  std::string type;
  for (const char* object : {"rope_scaling", "rope_parameters"}) {
    if (!type.empty() || !fields.has({object})) {
      continue;
    }
    ConfigFields scaling = fields.object(object);
    const char* all = "full_attention";
    ConfigFields part = scaling.has({all}) ? scaling.object(all) : scaling;
    type = part.text_or("rope_type", part.text_or("type", ""));
    if (type == "su") {
      type = "longrope";
    } else if (type == "default" || type == "mrope") {
      type = "none";
    } else if (type == "deepseek_yarn") {
      type = "yarn";
    }
    static constexpr std::string_view kKnown = " none linear dynamic llama3 yarn longrope ";
    if (!type.empty() && kKnown.find(" " + type + " ") == std::string_view::npos) {
      fields.fail(object, fmt::format("has the type \"{}\", which is not known; one of{}or default "
                                      "would be right",
                                      type, kKnown));
    }
  }
  function.rotary_scaling = type.empty() ? "none" : type;
}

void read_activation(ConfigFields& fields, ConfigFields::Names names, Function& function) {
  struct Name {
    const char *name, *ours;
  };
  constexpr Name kNames[] = {{"silu", "silu"},           {"swish", "silu"},
                             {"swiglu", "silu"},         {"gelu", "gelu"},
                             {"gelu_python", "gelu"},    {"gelu_new", "gelu_tanh"},
                             {"gelu_fast", "gelu_tanh"}, {"gelu_pytorch_tanh", "gelu_tanh"},
                             {"relu", "relu"},           {"relu2", "relu2"},
                             {"relu_squared", "relu2"},  {"quick_gelu", "quick_gelu"}};
  for (const char* key : names) {
    if (!fields.has({key})) {
      continue;
    }
    const std::string word = fields.text_or(key, "");
    const auto* found = std::find_if(std::begin(kNames), std::end(kNames),
                                     [&](const Name& each) { return word == each.name; });
    if (found == std::end(kNames)) {
      fields.fail(key, fmt::format("is \"{}\", an activation that no model description here has; "
                                   "silu, gelu, gelu_new, relu, relu2 or quick_gelu would be right",
                                   word));
    }
    function.activation = found->ours;
    return;
  }
}

}  // namespace trireme::models
