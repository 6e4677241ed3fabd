// Every legal layout as columns: the options are the program's, the table is the planner's.
#include "planner/search/sweep.h"

#include <algorithm>
#include <chrono>

#include "api/arguments.h"
#include "core/error.h"
#include "core/parallel.h"
#include "tools/plan_report.h"
#include "tools/request.h"
#include "tools/sample_options.h"
#include "trireme/trireme.h"

namespace trireme::api {
namespace {

struct Asked {
  planner::Job job;
  planner::SweepOptions options;
};

Asked asked_of(const Job& job, const SweepOptions& options) {
  tools::JobOptions given;
  tools::LayoutOptions layout;
  Words words;
  add(words, job);
  add(words, options.layout);
  tools::read_options("sweep", std::move(words), [&](tools::Command& command) {
    tools::add_job_options(command, given);
    tools::add_sample_options(command, given);
    tools::add_layout_options(command, layout);
  });
  Asked asked{.job = tools::make_job(given), .options = {}};
  if (asked.job.global_batch == 0) {
    asked.job.global_batch = asked.job.cluster.gpus;  // as of plan: one sequence a GPU
  }
  planner::SearchOptions narrowed;
  tools::fix_layout(layout, narrowed);
  asked.options.constraints = std::move(narrowed.constraints);
  asked.options.fixed = std::move(narrowed.fixed);
  for (const std::string& text : options.constraint) {
    asked.options.constraints.push_back(planner::parse_constraint(text));
  }
  asked.options.threads =
      static_cast<int>(std::max<std::int64_t>(1, options.threads.value_or(usable_threads())));
  return asked;
}

void make_room(Sweep& table, std::size_t layouts) {
  for (auto* column : {&table.tp, &table.pp, &table.vpp, &table.dp, &table.fsdp, &table.cp,
                       &table.ep, &table.etp, &table.micro_batch, &table.micro_batches}) {
    column->resize(layouts);
  }
  for (auto* column : {&table.sharding, &table.recompute, &table.schedule, &table.fit}) {
    column->resize(layouts);
  }
  for (auto* column :
       {&table.step_seconds, &table.low_seconds, &table.high_seconds, &table.peak_allocated_gib}) {
    column->resize(layouts);
  }
}

void put(Sweep& table, std::size_t at, const planner::RankedPlan& layout) {
  const planner::Plan& plan = layout.plan;
  const auto count = [](std::int64_t number) { return static_cast<std::int32_t>(number); };
  table.tp[at] = count(plan.tensor);
  table.pp[at] = count(plan.pipeline);
  table.vpp[at] = count(plan.virtual_pipeline);
  table.dp[at] = count(plan.replicas);
  table.fsdp[at] = count(plan.sharded);
  table.cp[at] = count(plan.context);
  table.ep[at] = count(plan.expert);
  table.etp[at] = count(plan.expert_tensor == 0 ? plan.tensor : plan.expert_tensor);
  table.micro_batch[at] = count(plan.micro_batch);
  table.micro_batches[at] = count(plan.micro_batches);
  table.sharding[at] = static_cast<std::int8_t>(plan.sharding);
  table.recompute[at] = static_cast<std::int8_t>(plan.recompute);
  table.schedule[at] = static_cast<std::int8_t>(plan.schedule);
  table.fit[at] = static_cast<std::int8_t>(layout.fit);
  table.step_seconds[at] = layout.step_seconds;
  table.low_seconds[at] = layout.low_seconds;
  table.high_seconds[at] = layout.high_seconds;
  table.peak_allocated_gib[at] = layout.memory_gib;
}

}  // namespace

Sweep sweep(const Job& job, const SweepOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  Sweep table;
  try {
    const Asked asked = asked_of(job, options);
    planner::sweep(asked.job, asked.options,
                   {.begin = [&](std::size_t layouts) { make_room(table, layouts); },
                    .take = [&](std::size_t at,
                                const planner::RankedPlan& layout) { put(table, at, layout); }});
  } catch (const trireme::Error& error) {
    throw Error(error.what(), error.kind() == ErrorKind::kMissingMachine);
  }
  table.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return table;
}

}  // namespace trireme::api
