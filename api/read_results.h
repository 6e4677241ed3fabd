// The program's JSON as the structs of trireme/results.h.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "trireme/results.h"

namespace trireme::api {

// Each throws nlohmann's exceptions where a key is missing: a fault of ours, which the caller
// reports.
Model read_model(const nlohmann::ordered_json& json);
Cluster read_cluster(const nlohmann::ordered_json& json);
Estimate read_estimate(const nlohmann::ordered_json& json);
Simulation read_simulation(const nlohmann::ordered_json& json);
Plan read_plan(const nlohmann::ordered_json& json);
WhatIf read_whatif(const nlohmann::ordered_json& json);
Check read_check(const nlohmann::ordered_json& json);
Calibration read_calibration(const nlohmann::ordered_json& json);

}  // namespace trireme::api
