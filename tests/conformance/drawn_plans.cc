#include "tests/conformance/drawn_plans.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "models/presets.h"
#include "planner/cost/own_memory.h"
#include "planner/lower/lower.h"
#include "planner/plan/rules.h"
#include "planner/plan/shape.h"

namespace trireme::tests {
namespace {

using planner::Job;
using planner::Plan;
using planner::Recompute;
using planner::Schedule;
using planner::Sharding;

template <typename T, std::size_t N>
const T& pick(Random& random, const T (&values)[N]) {
  return values[random.below(static_cast<std::int64_t>(N))];
}

struct Machine {
  const char* name;
  std::int64_t gpus;  // of a node
};
constexpr Machine kMachines[] = {
    {"dgx-a100-80gb", 8}, {"dgx-h100", 8}, {"hgx-h200", 8}, {"gb200-nvl72", 72}};
constexpr const char* kModels[] = {"llama-3.2-1b", "llama-3.2-3b", "llama-3.1-8b",  "qwen3-8b",
                                   "llama-2-13b",  "qwen3-14b",    "llama-3.1-70b", "gpt3-175b",
                                   "gpt3-6.7b",    "mixtral-8x7b", "qwen3-30b-a3b"};

void draw_pipeline(Random& random, const Job& job, Plan& plan) {
  plan.pipeline = random.chance(45) ? 1 : std::int64_t{2} << random.below(3);
  if (plan.pipeline == 1) {
    plan.micro_batches = 1 + random.below(8);
    return;
  }
  plan.schedule =
      random.chance(30) ? Schedule::kInterleaved : static_cast<Schedule>(random.below(5));
  plan.micro_batches = plan.pipeline * (1 + random.below(6));
  if (plan.schedule == Schedule::kInterleaved) {
    // Chunks of one, two, … layers: as many as there are, up to 24.
    const std::int64_t layers = job.model.layers / plan.pipeline;
    do {
      plan.virtual_pipeline = 2 + random.below(23);
    } while (plan.virtual_pipeline > 2 && layers % plan.virtual_pipeline != 0);
  }
}

void draw_pipeline_in_v(Random& random, Plan& plan) {
  plan.pipeline = std::int64_t{2} << random.below(3);
  plan.virtual_pipeline = planner::kChunksInV;
  plan.schedule = random.chance(50) ? Schedule::kZeroBubbleV : Schedule::kDualPipeV;
  // As many as fill the V: of fewer ranks idle in between, which nobody plans for.
  plan.micro_batches = 2 * plan.pipeline + random.below(6 * plan.pipeline);
}

Plan draw_plan(Random& random, const Job& job, Chunks chunks, Sequences sequences) {
  Plan plan;
  plan.tensor = 1 << random.below(4);
  if (chunks == Chunks::kInV) {
    draw_pipeline_in_v(random, plan);
  } else {
    draw_pipeline(random, job, plan);
  }
  plan.context = sequences == Sequences::kShared ? 2 << random.below(3)
                 : random.chance(85)             ? 1
                                                 : 2 << random.below(2);
  plan.sharded = 1 << random.below(6);
  plan.replicas = 1 << random.below(3);
  plan.micro_batch = 1 << random.below(3);
  plan.sequence_parallel = plan.tensor > 1 && random.chance(70);
  plan.sharding = static_cast<Sharding>(random.below(4));
  if (plan.sharding == Sharding::kNone) {
    plan.replicas *= plan.sharded;
    plan.sharded = 1;
  }
  if (job.model.moe) {
    plan.expert = std::min<std::int64_t>(plan.data_parallel(), 1 << random.below(4));
    plan.expert_tensor = random.chance(50) ? 1 : 0;
  }
  plan.recompute = static_cast<Recompute>(random.below(3));
  plan.recompute_modules = static_cast<std::uint16_t>(1 + random.below(7));
  if (job.framework.name == "fsdp2" && random.chance(50)) {
    plan.recompute_modules = planner::kTorchPerOp;
  }
  plan.recompute_layers = random.chance(80) ? -1 : random.below(4);
  plan.reshard_after_forward = random.chance(70);
  plan.fsdp_unit = random.chance(85) ? 1 : 2;
  return plan;
}

bool can_be_drawn(Drawn& drawn, const Machine& machine) {
  const std::int64_t gpus = drawn.plan.gpus();
  if (gpus > 1024 || drawn.plan.tensor > machine.gpus) {
    return false;
  }
  Job& job = drawn.job;
  job.cluster = topologies::load_cluster(
      fmt::format("{}x{}", machine.name, (gpus + machine.gpus - 1) / machine.gpus));
  job.cluster = topologies::narrowed(job.cluster, gpus);
  job.global_batch = drawn.plan.micro_batch * drawn.plan.micro_batches * drawn.plan.data_parallel();
  if (planner::check_plan(job, drawn.plan)) {
    return false;
  }
  // A split backward with gradients reduced every micro-batch holds whole gradients between its
  // halves; no system trains so, and the closed form does not follow its queues.
  const planner::RunSharding run = planner::run_sharding(job, drawn.plan);
  if (drawn.plan.pipeline > 1 && drawn.plan.schedule >= Schedule::kZeroBubbleH1 &&
      run.sharding >= Sharding::kGradients) {
    return false;
  }
  planner::Estimator(job).estimate(drawn.plan, drawn.estimate);
  if (drawn.estimate.memory.fit == planner::Fit::kNo) {
    return false;
  }
  try {
    drawn.program = planner::lower(job, drawn.plan);
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace

Drawn draw(const std::string& framework, std::uint64_t seed, const Training& train, Chunks chunks,
           Sequences sequences) {
  Random random(seed * 104729 + 7);
  while (true) {
    Drawn drawn;
    Job& job = drawn.job;
    job.framework = planner::find_framework(framework);
    job.profile = topologies::shipped_profile();
    job.model = models::load_model(pick(random, kModels));
    const std::int64_t longest = std::min<std::int64_t>(8192, job.model.max_sequence);
    job.sequence = std::max<std::int64_t>(1024, longest >> random.below(3));
    if (train) {
      train(random, job);
    }
    const Machine& machine = pick(random, kMachines);
    drawn.plan = draw_plan(random, job, chunks, sequences);
    if (!can_be_drawn(drawn, machine)) {
      continue;
    }
    const Plan& plan = drawn.plan;
    drawn.what = fmt::format(
        "{} seed {} {} {} s{} {} {} m {} modules {} layers {} reshard {} unit {}", framework, seed,
        job.model.name, machine.name, job.sequence, planner::short_form(plan),
        planner::to_string(plan.schedule), plan.micro_batches, plan.recompute_modules,
        plan.recompute_layers, plan.reshard_after_forward, plan.fsdp_unit);
    return drawn;
  }
}

std::optional<double> memory_difference(const Drawn& drawn) {
  const Plan& plan = drawn.plan;
  const bool own = drawn.job.framework.implementation == models::Implementation::kTrireme;
  if (own && !planner::counts_own_memory(drawn.job, plan)) {
    return std::nullopt;
  }
  const planner::RunSharding run = planner::run_sharding(drawn.job, plan);
  if (run.reshards && run.sharding != plan.sharding) {
    return std::nullopt;
  }
  double sum = 0;
  const StepProgram& program = drawn.program;
  for (std::size_t r = 0; r < program.roles.size(); ++r) {
    const double alive = to_gib(liveness(program, program.roles[r]).peak);
    sum += drawn.estimate.memory.stages[r].items.total() / alive - 1;
  }
  return sum / static_cast<double>(program.roles.size());
}

}  // namespace trireme::tests
