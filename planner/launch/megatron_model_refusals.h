// What Megatron-Core's GPT model can be, and what the writers of its two formats share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/launch/launch_plan.h"

namespace trireme::planner {

// Throws Error when Megatron-Core has no such model: another norm placement, ALiBi, biases that its
// one switch cannot tell apart.
void refuse_models_unknown_to_megatron(const models::Transformer& model);
// Every matrix has a bias (Megatron's add_bias_linear). Requires: the model was not refused.
bool has_linear_biases(const models::Transformer& model);
// One digit a layer, as the Python expression that Megatron evaluates: "([0]*3+[1]*58)".
std::string layer_pattern(const std::vector<bool>& flags);
// Tokens of the position table, or the longest sequence where positions are computed.
std::int64_t megatron_positions(const Job& job);

}  // namespace trireme::planner
