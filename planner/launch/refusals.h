// What a format or its framework cannot start, as rows: those of a job, which hold whatever its
// layout, and those of a layout, which search asks of every one before it estimates any.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "planner/launch/export.h"

namespace trireme::planner {

// What of a launch its rows read: a view, so that many layouts are asked without a copy of the job.
struct Launched {
  const Job& job;
  const Plan& plan;
  std::int64_t processes_per_host = 1;
  std::string_view flavor;

  Launched(const Job& its_job, const Plan& its_plan, std::int64_t processes)
      : job(its_job), plan(its_plan), processes_per_host(processes) {}
  // Rows are asked of a launch too.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Launched(const LaunchPlan& launch)
      : job(launch.job),
        plan(launch.plan),
        processes_per_host(launch.processes_per_host),
        flavor(launch.flavor) {}
};

// The texts may hold {tp}, {pp}, {cp}, {ep}, {etp}, {fsdp}, {data} (fsdp x dp), {host} (processes
// of one), {seq}, {even_seq} (the next that tp and cp divide), {sharding}, {schedule}, {modules},
// {recomputed}, {model}, {positions}, {layers_but_one}, {half_the_layers} (as a share),
// {shard_states} and {shard_all} (options with which the layout shards so) and {who}.
struct JobRefusal {
  std::string_view axis;
  bool (*when)(const Job& job);
  std::string_view why;
};
struct Refusal {
  std::string_view axis;
  bool (*when)(const Launched& launched);
  std::string_view why;
};
// Whether the format's program places ranks in the plan's order.
bool takes_order(LaunchFormat format, const Framework& framework, const Plan& plan);
// Whether no row of a layout says no. The job is as settle_launched_job leaves it.
bool takes_layout(LaunchFormat format, const Launched& launched);
// "tp: FSDP1 runs beside no other axis; …": the first row of a layout that says no; empty: none.
std::string layout_refusal(LaunchFormat format, const Launched& launched);
// Throws the Error of the first row of the job, the order or the layout that says no.
void refuse_what_cannot_start(LaunchFormat format, const LaunchPlan& launch);

// Tensor-parallel ranks of an expert.
std::int64_t expert_tensor_of(const Plan& plan);

// ---- the tables (torch_refusals.cc, offload_refusals.cc, megatron/megatron_refusals.cc)

std::span<const JobRefusal> torchtitan_job_refusals();
std::span<const Refusal> torchtitan_layout_refusals();
std::span<const JobRefusal> deepspeed_job_refusals();
std::span<const Refusal> deepspeed_layout_refusals();
std::span<const JobRefusal> accelerate_job_refusals();
std::span<const Refusal> accelerate_layout_refusals();
std::span<const JobRefusal> megatron_job_refusals();
std::span<const JobRefusal> megatron_bridge_job_refusals();
std::span<const Refusal> megatron_layout_refusals();
// Of what is offloaded.
struct OffloadRefusals {
  std::span<const JobRefusal> of_jobs;
  std::span<const Refusal> of_layouts;
};
OffloadRefusals offload_refusals(LaunchFormat format);

}  // namespace trireme::planner
