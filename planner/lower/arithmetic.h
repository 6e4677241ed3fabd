// What a model's function says, as a program says it (core/arithmetic.h), and what it says that no
// program does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/arithmetic.h"
#include "models/transformer.h"

namespace trireme::planner::lowering {

// `sequence`: positions of a sequence; scalings that depend on it follow (dynamic, longrope).
Arithmetic arithmetic_of(const models::Transformer& model, std::int64_t sequence);
// The layer's place in Arithmetic::rotary; -1: it has no rotary positions.
std::int64_t rotary_table_of(const models::Transformer& model, std::int64_t layer);

// A part of the model's function that no kernel computes ("queries and keys that are clamped");
// empty: all of it is computed.
std::string uncomputed_part(const models::Transformer& model);
// Parts that change how the model is trained and that a run leaves out.
std::vector<std::string> parts_left_out(const models::Transformer& model);

}  // namespace trireme::planner::lowering
