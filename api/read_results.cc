#include "api/read_results.h"

#include <nlohmann/json.hpp>

namespace trireme::api {
namespace {

using Json = nlohmann::ordered_json;

std::optional<Estimate> estimate_or_null(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(read_estimate(json));
}

}  // namespace

// A field has its key's name.
#define TRIREME_READS(Type, ...)                                               \
  static void from_json(const Json& nlohmann_json_j, Type& nlohmann_json_t) {  \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_FROM, __VA_ARGS__)) \
  }

TRIREME_READS(Model, name, parameters, active_parameters, layers, hidden, heads, kv_heads, vocab)
TRIREME_READS(Cluster, name, gpu, network, gpus_per_node, nics, peak_tflops, memory_gib,
              memory_gbytes_per_second, nvlink_gbytes_per_second, nic_gbps)
TRIREME_READS(ModelSummary, name, parameters, active_parameters)
TRIREME_READS(ClusterSummary, name, gpu, gpus)
TRIREME_READS(MemoryBreakdown, parameters, gradients, optimizer, activations, gathered_parameters,
              logits, communication, other)
TRIREME_READS(StageMemory, stage, peak_allocated_gib, breakdown_gib)
TRIREME_READS(Memory, peak_allocated_gib, peak_reserved_gib, device_gib, capacity_gib, host_gib,
              host_capacity_gib, reserved_low_gib, reserved_high_gib, peak_stage, breakdown_gib,
              stages)
TRIREME_READS(TimeBreakdown, compute, tensor_parallel, context_parallel, expert_parallel,
              pipeline_bubble, pipeline_p2p, data_parallel, optimizer, offload, other)
TRIREME_READS(Time, step_seconds, low_seconds, high_seconds, hidden_communication_seconds,
              breakdown_seconds)
TRIREME_READS(Throughput, tokens_per_second, tokens_per_second_per_gpu, model_tflops_per_gpu, mfu,
              hfu, mfu_full_attention, peak_tflops)
TRIREME_READS(RankUse, rank, stage, busy_fraction, exposed_communication_seconds)
TRIREME_READS(Violation, rule, severity, detail, fix)
#undef TRIREME_READS

static void from_json(const Json& json, ChosenLayout& layout) {
  json.at("short").get_to(layout.short_form);
  const std::pair<const char*, std::int64_t ChosenLayout::*> numbers[] = {
      {"tp", &ChosenLayout::tp},
      {"pp", &ChosenLayout::pp},
      {"vpp", &ChosenLayout::vpp},
      {"dp", &ChosenLayout::dp},
      {"fsdp", &ChosenLayout::fsdp},
      {"cp", &ChosenLayout::cp},
      {"ep", &ChosenLayout::ep},
      {"etp", &ChosenLayout::etp},
      {"micro_batch", &ChosenLayout::micro_batch},
      {"micro_batches", &ChosenLayout::micro_batches},
      {"recompute_layers", &ChosenLayout::recompute_layers},
      {"fsdp_unit", &ChosenLayout::fsdp_unit}};
  for (const auto& [key, field] : numbers) {
    json.at(key).get_to(layout.*field);
  }
  json.at("sharding").get_to(layout.sharding);
  json.at("recompute").get_to(layout.recompute);
  json.at("schedule").get_to(layout.schedule);
  json.at("sequence_parallel").get_to(layout.sequence_parallel);
  json.at("reshard_after_forward").get_to(layout.reshard_after_forward);
  json.at("stage_layers").get_to(layout.stage_layers);
}

Model read_model(const Json& json) {
  return json.get<Model>();
}

Cluster read_cluster(const Json& json) {
  return json.get<Cluster>();
}

Estimate read_estimate(const Json& json) {
  Estimate e;
  json.at("model").get_to(e.model);
  json.at("cluster").get_to(e.cluster);
  json.at("layout").get_to(e.layout);
  json.at("sequence").get_to(e.sequence);
  json.at("global_batch").get_to(e.global_batch);
  json.at("framework").get_to(e.framework);
  json.at("fits").get_to(e.fits);
  json.at("fit").get_to(e.fit);
  json.at("memory").get_to(e.memory);
  json.at("time").get_to(e.time);
  json.at("throughput").get_to(e.throughput);
  e.json = json.dump();
  return e;
}

Simulation read_simulation(const Json& json) {
  return {.estimate = read_estimate(json),
          .events = json.at("events"),
          .simulation_seconds = json.at("simulation_seconds"),
          .ranks = json.at("ranks").get<std::vector<RankUse>>(),
          .json = json.dump()};
}

Plan read_plan(const Json& json) {
  Plan plan{.best = estimate_or_null(json.at("best")),
            .alternatives = {},
            .space = json.at("space"),
            .evaluated = json.at("evaluated"),
            .pruned_by_bound = json.at("pruned_by_bound"),
            .feasible = json.at("feasible"),
            .search_seconds = json.at("search_seconds"),
            .json = json.dump()};
  for (const Json& one : json.at("alternatives")) {
    plan.alternatives.push_back(read_estimate(one));
  }
  return plan;
}

WhatIf read_whatif(const Json& json) {
  WhatIf answer{.base = read_estimate(json.at("base")), .cases = {}, .json = json.dump()};
  for (const Json& one : json.at("cases")) {
    answer.cases.push_back(
        {.change = one.at("change").get<std::map<std::string, std::string>>(),
         .estimate = estimate_or_null(one.at("estimate")),
         .step_ratio = one.at("step_ratio").is_null() ? 0 : one.at("step_ratio").get<double>(),
         .notes = one.at("notes").get<std::vector<std::string>>()});
  }
  return answer;
}

Check read_check(const Json& json) {
  return {.violations = json.at("violations").get<std::vector<Violation>>(),
          .estimate = estimate_or_null(json.at("estimate")),
          .better = estimate_or_null(json.at("better")),
          .json = json.dump()};
}

Calibration read_calibration(const Json& json) {
  return {.profile = json.at("profile"),
          .remarks = json.at("remarks").get<std::vector<std::string>>(),
          .json = json.dump()};
}

}  // namespace trireme::api
