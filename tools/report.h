// What commands print: JSON under its schema, and an estimate as JSON and as tables.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "planner/cost/estimate.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"
#include "tools/program.h"

namespace trireme::tools {

using Json = nlohmann::ordered_json;

// Prints `body` with "schema": "trireme.<name>/1" in front, indented, to `console.out`.
void print_json(const Console& console, const std::string& name, const Json& body);
// A number, or null where there is none.
Json optional_json(const std::optional<double>& value);
// The "layout" object of every JSON answer.
Json layout_json(const planner::Plan& plan);
// A whole estimate as every JSON answer holds it, without its schema.
Json estimate_json(const planner::Job& job, const planner::Estimate& estimate);
// Its "sources": which numbers the profile measured, which come from another card or a datasheet.
// The same for people: what, does it fit, memory and time item by item, throughput.
void print_estimate(const Console& console, const planner::Job& job,
                    const planner::Estimate& estimate);

// "sources" of an estimate: which numbers the profile measured, which come from another card or a
// datasheet; as JSON and as a line or two.
Json sources_json(const planner::Job& job);
void print_sources(const Console& console, const planner::Job& job);

std::string_view to_string(planner::Fit fit);  // fits at_risk no
// "fits", or what is missing: "does not fit: needs 91.2 GiB at least, stage 0 can have 78.1 GiB".
std::string verdict(const planner::MemoryEstimate& memory);
// "llama-3.1-70b (70.6B parameters) on dgx-h100x8: 64 x H100-SXM5-80GB; sequence 8192, global batch
// 512, ..."
std::string job_text(const planner::Job& job);
// kDone when it fits or may fit, else kAnswerIsNo.
int exit_code_of(const planner::MemoryEstimate& memory);

}  // namespace trireme::tools
