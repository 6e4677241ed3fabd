#include "tools/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace trireme::tools {

void print_json(const Console& console, const std::string& name, const Json& body) {
  Json whole = {{"schema", fmt::format("trireme.{}/1", name)}};
  whole.update(body);
  fmt::print(console.out, "{}\n", whole.dump(2, ' ', false, Json::error_handler_t::replace));
}

Json optional_json(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

Json layout_json(const planner::Plan& plan) {
  Json json = {{"short", planner::short_form(plan)},
               {"tp", plan.tensor},
               {"pp", plan.pipeline},
               {"vpp", plan.virtual_pipeline},
               {"dp", plan.replicas},
               {"fsdp", plan.sharded},
               {"cp", plan.context},
               {"ep", plan.expert},
               {"etp", plan.expert_tensor == 0 ? plan.tensor : plan.expert_tensor},
               {"sharding", planner::to_string(plan.sharding)},
               {"micro_batch", plan.micro_batch},
               {"micro_batches", plan.micro_batches},
               {"recompute", planner::to_string(plan.recompute)},
               {"recompute_layers", plan.recompute_layers},
               {"recompute_modules", planner::module_names(plan.recompute_modules)},
               {"schedule", planner::to_string(plan.schedule)},
               {"sequence_parallel", plan.sequence_parallel},
               {"reshard_after_forward", plan.reshard_after_forward},
               {"fsdp_unit", plan.fsdp_unit},
               {"stage_layers", plan.stage_layers},
               {"prediction_apart", plan.prediction_apart},
               {"order", Json::array()}};
  for (const planner::Axis axis : plan.order) {
    json["order"].push_back(planner::to_string(axis));
  }
  return json;
}

}  // namespace trireme::tools
