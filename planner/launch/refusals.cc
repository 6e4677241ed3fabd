// How rows of refusals are asked, and their texts filled in.
#include "planner/launch/refusals.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <vector>

#include "planner/launch/megatron/megatron.h"
#include "planner/plan/names.h"

namespace trireme::planner {
namespace {

std::vector<Axis> axes_in_use(const Plan& plan, const std::array<Axis, 5>& order) {
  std::vector<Axis> axes;
  std::copy_if(order.begin(), order.end(), std::back_inserter(axes),
               [&](Axis axis) { return degree_of(plan, axis) > 1; });
  return axes;
}

bool is_megatron_format(LaunchFormat format) {
  return format == LaunchFormat::kMegatron || format == LaunchFormat::kMegatronBridge;
}

// The option with which this layout shards so: over all data-parallel ranks.
std::string shards_so(Sharding sharding, Plan plan) {
  if (plan.data_parallel() == 1) {
    return fmt::format("--sharding {}", to_string(sharding));
  }
  plan.sharded = plan.data_parallel();
  plan.replicas = 1;
  plan.sharding = sharding;
  return fmt::format("--layout {}", short_form(plan));
}

std::string filled(std::string_view text, const Launched& l, std::string_view who) {
  const Plan& plan = l.plan;
  const std::int64_t cut = plan.tensor * 2 * plan.context;
  const std::int64_t layers = l.job.model.layers;
  const std::int64_t half = layers / 2;
  return fmt::format(
      fmt::runtime(text), fmt::arg("who", who), fmt::arg("tp", plan.tensor),
      fmt::arg("pp", plan.pipeline), fmt::arg("cp", plan.context), fmt::arg("ep", plan.expert),
      fmt::arg("etp", expert_tensor_of(plan)), fmt::arg("fsdp", plan.sharded),
      fmt::arg("data", plan.data_parallel()), fmt::arg("host", l.processes_per_host),
      fmt::arg("seq", l.job.sequence), fmt::arg("even_seq", (l.job.sequence / cut + 1) * cut),
      fmt::arg("sharding", to_string(plan.sharding)), fmt::arg("model", l.job.model.name),
      fmt::arg("schedule", to_string(plan.schedule)),
      fmt::arg("modules", module_names(plan.recompute_modules)),
      fmt::arg("recomputed", plan.recompute_layers),
      fmt::arg("positions", megatron_positions(l.job)), fmt::arg("layers_but_one", layers - 1),
      fmt::arg("half_the_layers",
               fmt::format("{:.6g}", static_cast<double>(half) / static_cast<double>(layers))),
      fmt::arg("shard_states", shards_so(Sharding::kOptimizer, plan)),
      fmt::arg("shard_all", shards_so(Sharding::kFull, plan)));
}

// nullptr: no row says no.
template <typename Row, typename Asked>
const Row* first_that_says_no(const std::vector<std::span<const Row>>& tables, const Asked& asked) {
  for (const std::span<const Row> table : tables) {
    const auto found =
        std::find_if(table.begin(), table.end(), [&](const Row& row) { return row.when(asked); });
    if (found != table.end()) {
      return &*found;
    }
  }
  return nullptr;
}

// All rows of a format.
struct Refusals {
  std::string_view who;  // the program
  std::vector<std::span<const JobRefusal>> of_jobs;
  std::vector<std::span<const Refusal>> of_layouts;
};

Refusals refusals_of(LaunchFormat format) {
  const auto [of_jobs, of_layouts] = offload_refusals(format);
  switch (format) {
    case LaunchFormat::kMegatron:
      return {"Megatron-LM",
              {of_jobs, megatron_job_refusals()},
              {of_layouts, megatron_layout_refusals()}};
    case LaunchFormat::kMegatronBridge:
      return {"Megatron-Bridge",
              {of_jobs, megatron_job_refusals(), megatron_bridge_job_refusals()},
              {of_layouts, megatron_layout_refusals()}};
    case LaunchFormat::kTorchtitan:
      return {"torchtitan",
              {of_jobs, torchtitan_job_refusals()},
              {of_layouts, torchtitan_layout_refusals()}};
    case LaunchFormat::kDeepspeed:
      return {"DeepSpeed",
              {of_jobs, deepspeed_job_refusals()},
              {of_layouts, deepspeed_layout_refusals()}};
    case LaunchFormat::kAccelerate:
      break;
  }
  return {"accelerate",
          {of_jobs, accelerate_job_refusals()},
          {of_layouts, accelerate_layout_refusals()}};
}

// Made once: search asks thousands of times.
const Refusals& known_refusals(LaunchFormat format) {
  static const std::map<LaunchFormat, Refusals> kAll = [] {
    std::map<LaunchFormat, Refusals> all;
    for (const LaunchFormat each :
         {LaunchFormat::kMegatron, LaunchFormat::kMegatronBridge, LaunchFormat::kTorchtitan,
          LaunchFormat::kDeepspeed, LaunchFormat::kAccelerate}) {
      all.emplace(each, refusals_of(each));
    }
    return all;
  }();
  return kAll.at(format);
}

}  // namespace

bool takes_order(LaunchFormat format, const Framework& framework, const Plan& plan) {
  return axes_in_use(plan, plan.order) == axes_in_use(plan, Plan{}.order) ||
         (is_megatron_format(format) && framework.sharder != Sharder::kMegatronFsdp &&
          pipeline_before_data(plan));
}

bool takes_layout(LaunchFormat format, const Launched& launched) {
  return first_that_says_no(known_refusals(format).of_layouts, launched) == nullptr;
}

std::string layout_refusal(LaunchFormat format, const Launched& launched) {
  const Refusals& refusals = known_refusals(format);
  const Refusal* found = first_that_says_no(refusals.of_layouts, launched);
  return found == nullptr ? ""
                          : fmt::format("{}: {}", filled(found->axis, launched, refusals.who),
                                        filled(found->why, launched, refusals.who));
}

void refuse_what_cannot_start(LaunchFormat format, const LaunchPlan& launch) {
  const Refusals& refusals = known_refusals(format);
  const auto say = [&](std::string_view axis, std::string_view why) {
    refuse(filled(axis, launch, refusals.who), filled(why, launch, refusals.who));
  };
  if (const JobRefusal* row = first_that_says_no(refusals.of_jobs, launch.job)) {
    say(row->axis, row->why);
  }
  if (!takes_order(format, launch.job.framework, launch.plan)) {
    say("order",
        "{who} places ranks tp, cp, fsdp, dp, pp (fastest first); leave the order out of the "
        "layout");
  }
  const Launched launched(launch);
  if (const Refusal* row = first_that_says_no(refusals.of_layouts, launched)) {
    say(row->axis, row->why);
  }
}

std::int64_t expert_tensor_of(const Plan& plan) {
  return plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor;
}

}  // namespace trireme::planner
