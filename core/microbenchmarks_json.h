// Raw points of micro-benchmarks as JSON: what `trireme calibrate --raw` keeps, and the "points" of
// a profile.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "core/microbenchmarks.h"

namespace trireme {

nlohmann::ordered_json fingerprint_to_json(const MachineFingerprint& machine);
// Throws Error naming `where`.
MachineFingerprint fingerprint_from_json(const nlohmann::json& json, const std::string& where);

// "schema": "trireme.microbenchmarks/1"; every key's unit is its suffix. Reads back equal. Matrix
// products without "precision" (files of before) are in bf16.
nlohmann::ordered_json microbenchmarks_to_json(const Microbenchmarks& points);
// Strict: throws Error on a missing or unknown key, a negative time, a size of zero.
Microbenchmarks microbenchmarks_from_json(const nlohmann::json& json, const std::string& where);

std::string_view to_string(MatmulLayout layout);  // forward, input_gradient, weight_gradient
std::optional<MatmulLayout> find_matmul_layout(std::string_view name);
std::string_view to_string(MatmulPrecision precision);  // bf16, fp16, fp8
std::optional<MatmulPrecision> find_matmul_precision(std::string_view name);

}  // namespace trireme
