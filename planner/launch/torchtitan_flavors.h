// The models that torchtitan v0.2.2 has, under its names: a TOML names one, it cannot describe one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "planner/launch/launch_plan.h"

namespace trireme::planner {

struct TorchtitanModel {
  std::string name;             // [model] name
  std::string flavor;           // [model] flavor
  std::string assets;           // the Hugging Face model whose tokenizer it uses; empty: not known
  bool pipelines = true;        // qwen3 and gpt_oss have no pipelining function
  bool flex_attention = false;  // runs without context parallelism
};

// What torchtitan v0.2.2 builds under a name of its own; nothing for a name that it lacks.
std::optional<models::Transformer> torchtitan_flavor(std::string_view family,
                                                     std::string_view flavor);

// The flavor that computes the same function, or the one that launch.flavor names: "8B", or
// "llama3/8B" where the model's own name does not tell. Throws Error when there is none.
TorchtitanModel torchtitan_model(const LaunchPlan& launch);

}  // namespace trireme::planner
