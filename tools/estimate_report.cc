// An estimate as JSON (its keys are fixed) and as tables.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/transformer.h"
#include "planner/cost/formulas.h"
#include "planner/cost/offload_fit.h"
#include "planner/cost/symbols.h"
#include "planner/cost/time_items.h"
#include "planner/search/search.h"
#include "planner/search/switches.h"
#include "tools/report.h"
#include "tools/table.h"
#include "topologies/node_groups.h"

namespace trireme::tools {
namespace {

using planner::Estimate;
using planner::Job;
using planner::MemoryItems;
using planner::TimeItems;

struct MemoryRow {
  const char* name;
  double MemoryItems::*item;
};
constexpr MemoryRow kMemoryRows[] = {{"parameters", &MemoryItems::parameters},
                                     {"gradients", &MemoryItems::gradients},
                                     {"optimizer", &MemoryItems::optimizer},
                                     {"activations", &MemoryItems::activations},
                                     {"gathered_parameters", &MemoryItems::gathered_parameters},
                                     {"logits", &MemoryItems::logits},
                                     {"communication", &MemoryItems::communication},
                                     {"other", &MemoryItems::other}};
Json breakdown(const MemoryItems& items) {
  Json json;
  for (const MemoryRow& row : kMemoryRows) {
    json[row.name] = items.*(row.item);
  }
  return json;
}

// Over all stages: each phase at its fullest.
planner::MemoryPhases fullest_phases(const planner::MemoryEstimate& memory) {
  planner::MemoryPhases most;
  for (const planner::StageMemory& stage : memory.stages) {
    most.load = std::max(most.load, stage.phases.load);
    most.forward = std::max(most.forward, stage.phases.forward);
    most.backward = std::max(most.backward, stage.phases.backward);
    most.first_optimizer_step =
        std::max(most.first_optimizer_step, stage.phases.first_optimizer_step);
  }
  return most;
}

Json memory_json(const planner::MemoryEstimate& memory) {
  const planner::MemoryPhases phases = fullest_phases(memory);
  Json stages = Json::array();
  for (std::size_t i = 0; i < memory.stages.size(); ++i) {
    stages.push_back({{"stage", i},
                      {"peak_allocated_gib", memory.stages[i].items.total()},
                      {"breakdown_gib", breakdown(memory.stages[i].items)}});
  }
  return {{"peak_allocated_gib", memory.allocated_gib},
          {"peak_reserved_gib", memory.reserved_gib},
          {"device_gib", memory.device_gib},
          {"capacity_gib", memory.capacity_gib},
          {"host_gib", memory.host_gib},
          {"host_capacity_gib", memory.host_capacity_gib},
          {"peak_stage", memory.peak_stage},
          {"reserved_low_gib", memory.reserved_low_gib},
          {"reserved_high_gib", memory.reserved_high_gib},
          {"phases_gib",
           {{"load", phases.load},
            {"forward", phases.forward},
            {"backward", phases.backward},
            {"first_optimizer_step", phases.first_optimizer_step}}},
          {"breakdown_gib", breakdown(memory.stages.at(memory.peak_stage).items)},
          {"stages", stages}};
}

Json time_json(const planner::TimeEstimate& time) {
  Json items;
  for (const planner::TimeItem& row : planner::kTimeItems) {
    items[row.name] = time.exposed.*(row.part);
  }
  return {{"step_seconds", time.step_seconds},
          {"low_seconds", time.low_seconds},
          {"high_seconds", time.high_seconds},
          {"hidden_communication_seconds", time.hidden_communication_seconds},
          {"breakdown_seconds", items}};
}

Json throughput_json(const planner::Throughput& t) {
  return {{"tokens_per_second", t.tokens_per_second},
          {"tokens_per_second_per_gpu", t.tokens_per_second_per_gpu},
          {"model_tflops_per_gpu", t.model_tflops_per_gpu},
          {"mfu", t.mfu},
          {"hfu", t.hfu},
          {"mfu_full_attention", t.mfu_full_attention},
          {"peak_tflops", t.peak_tflops},
          {"flop_convention",
           "model FLOP with the causal half of attention, no recompute, over the dense peak"}};
}

// The textbook values of this plan: elements, bytes or plain ratios, as planner/cost/formulas.h
// defines each.
Json formulas_json(const Job& job, const planner::Plan& plan) {
  const planner::Symbols s = planner::symbols_of(job, plan);
  const planner::Bubbles bubbles =
      planner::f17_bubbles(s.pipeline, s.micro_batches, static_cast<double>(plan.virtual_pipeline));
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
  return {{"F1", number(planner::f1_shard(s))},
          {"F3", number(planner::f3_fsdp_memory(s))},
          {"F4", number(planner::f4_megatron_memory(s))},
          {"F5", number(planner::f5_ratio(s))},
          {"F6", number(planner::f6_memory_reduction(s))},
          {"F7", number(planner::f7_hybrid_state(s.parameters, static_cast<double>(plan.sharded),
                                                 s.tensor))},
          {"F9", number(planner::f9_fsdp_volume(s))},
          {"F10", number(planner::f10_data_parallel_volume(s))},
          {"F11", number(planner::f11_tensor_volume(s))},
          {"F12", number(planner::f12_megatron_volume(s))},
          {"F13", number(planner::f13_ratio(s))},
          {"F17", number(bubbles.as_given)},
          {"F17_over_ideal", number(bubbles.over_ideal)},
          {"F17_over_total", number(bubbles.over_total)}};
}

std::string gib(double value) {
  return fmt::format("{:.2f}", value);
}

void print_memory(const Console& console, const planner::MemoryEstimate& memory) {
  const planner::MemoryPhases phases = fullest_phases(memory);
  Table table{.head = {fmt::format("memory of stage {}", memory.peak_stage), "GiB"}, .rows = {}};
  const MemoryItems& items = memory.stages.at(memory.peak_stage).items;
  for (const MemoryRow& row : kMemoryRows) {
    if (items.*(row.item) > 0) {
      table.rows.push_back({row.name, gib(items.*(row.item))});
    }
  }
  table.rows.push_back({"peak allocated", gib(memory.allocated_gib)});
  table.rows.push_back({"peak reserved", gib(memory.reserved_gib)});
  table.rows.push_back(
      {"with the prediction's error",
       fmt::format("{} to {}", gib(memory.reserved_low_gib), gib(memory.reserved_high_gib))});
  table.rows.push_back({"on the device", gib(memory.device_gib)});
  if (memory.host_gib > 0) {
    table.rows.push_back({"on a node's host", fmt::format("{} of {}", gib(memory.host_gib),
                                                          gib(memory.host_capacity_gib))});
  }
  print_table(console, table);
  fmt::print(console.out,
             "phases: load {:.1f}, forward {:.1f}, backward {:.1f}, first optimizer step {:.1f} "
             "GiB\n",
             phases.load, phases.forward, phases.backward, phases.first_optimizer_step);
  if (memory.stages.size() > 1) {
    std::string stages;
    for (const planner::StageMemory& stage : memory.stages) {
      stages += fmt::format(" {:.1f}", stage.items.total());
    }
    fmt::print(console.out, "stages:{} GiB\n", stages);
  }
}

void print_time(const Console& console, const planner::TimeEstimate& time) {
  Table table{.head = {"step, exposed time", "time", "share"}, .rows = {}};
  for (const planner::TimeItem& row : planner::kTimeItems) {
    const double seconds = time.exposed.*(row.part);
    if (seconds > 0) {
      table.rows.push_back({row.name, duration_text(seconds),
                            fmt::format("{:.1f} %", 100 * seconds / time.step_seconds)});
    }
  }
  table.rows.push_back(
      {"step", duration_text(time.step_seconds),
       fmt::format("{} to {}", duration_text(time.low_seconds), duration_text(time.high_seconds))});
  print_table(console, table);
}

}  // namespace

std::string_view to_string(planner::Fit fit) {
  switch (fit) {
    case planner::Fit::kFits:
      return "fits";
    case planner::Fit::kAtRisk:
      return "at_risk";
    case planner::Fit::kNo:
      return "no";
  }
  return "";
}

std::string verdict(const planner::MemoryEstimate& memory) {
  if (memory.host_gib > memory.host_capacity_gib) {
    return "does not fit: " + planner::memory_detail(memory);
  }
  switch (memory.fit) {
    case planner::Fit::kFits:
      return fmt::format("fits: at most {:.1f} of {:.1f} GiB", memory.reserved_high_gib,
                         memory.capacity_gib);
    case planner::Fit::kAtRisk:
      // At risk with a band that the capacity is not in: `check` has a reason to doubt the band.
      if (memory.reserved_low_gib > memory.capacity_gib ||
          memory.reserved_high_gib <= memory.capacity_gib) {
        return fmt::format(
            "not known whether it fits: {:.1f} to {:.1f} GiB are predicted and {:.1f} can be had",
            memory.reserved_low_gib, memory.reserved_high_gib, memory.capacity_gib);
      }
      return fmt::format("at risk: {:.1f} to {:.1f} GiB are expected and {:.1f} can be had",
                         memory.reserved_low_gib, memory.reserved_high_gib, memory.capacity_gib);
    case planner::Fit::kNo:
      return fmt::format("does not fit: stage {} needs at least {:.1f} GiB and can have {:.1f}",
                         memory.peak_stage, memory.reserved_low_gib, memory.capacity_gib);
  }
  return "";
}

std::string job_text(const Job& job) {
  return fmt::format("{} ({} parameters) on {}: {}; sequence {}, global batch {}, {}",
                     job.model.name,
                     count_text(static_cast<double>(models::parameter_count(job.model))),
                     job.cluster.name, topologies::cards_text(job.cluster), job.sequence,
                     job.global_batch, full_name(job.framework));
}

int exit_code_of(const planner::MemoryEstimate& memory) {
  return memory.fit == planner::Fit::kNo ? kAnswerIsNo : kDone;
}

Json estimate_json(const Job& job, const Estimate& estimate) {
  return {{"model",
           {{"name", job.model.name},
            {"parameters", models::parameter_count(job.model)},
            {"active_parameters", models::active_parameter_count(job.model)}}},
          {"cluster",
           {{"name", job.cluster.name},
            {"gpus", job.cluster.gpus},
            {"gpu", topologies::card_names(job.cluster)}}},
          {"layout", layout_json(estimate.plan)},
          {"sequence", job.sequence},
          {"global_batch", job.global_batch},
          {"framework", full_name(job.framework)},
          {"fits", estimate.memory.fit != planner::Fit::kNo},
          {"fit", to_string(estimate.memory.fit)},
          {"memory", memory_json(estimate.memory)},
          {"time", time_json(estimate.time)},
          {"throughput", throughput_json(estimate.throughput)},
          {"sources", sources_json(job)},
          {"formulas", formulas_json(job, estimate.plan)}};
}

void print_estimate(const Console& console, const Job& job, const Estimate& estimate) {
  const planner::MemoryEstimate& memory = estimate.memory;
  const bool may_be_mended =
      memory.fit == planner::Fit::kAtRisk && memory.allocated_gib <= memory.capacity_gib &&
      memory.reserved_high_gib > memory.capacity_gib && !job.framework.expandable_segments;
  print_heading(console, job_text(job));
  fmt::print(console.out, "layout {}: {} micro-batches of {} x {} tokens\n{}{}\n\n",
             planner::short_form(estimate.plan), estimate.plan.micro_batches,
             estimate.plan.micro_batch, job.sequence, verdict(memory),
             may_be_mended ? "; try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True first" : "");
  print_memory(console, memory);
  if (const std::string idle = planner::idle_offload(job, estimate.plan); !idle.empty()) {
    fmt::print(console.out, "{}\n", idle);
  }
  if (const std::string idle = planner::idle_ring(job, estimate.plan); !idle.empty()) {
    fmt::print(console.out, "{}\n", idle);
  }
  fmt::print(console.out, "\n");
  print_time(console, estimate.time);
  const planner::Throughput& t = estimate.throughput;
  fmt::print(console.out,
             "\n{} tokens/s, {} a GPU; {:.1f} TFLOP/s a GPU of {:.0f} dense: MFU {:.1f} % (all "
             "attention scores {:.1f} %, with recompute {:.1f} %)\n",
             grouped(t.tokens_per_second), grouped(t.tokens_per_second_per_gpu),
             t.model_tflops_per_gpu, t.peak_tflops, 100 * t.mfu, 100 * t.mfu_full_attention,
             100 * t.hfu);
  print_sources(console, job);
}

}  // namespace trireme::tools
