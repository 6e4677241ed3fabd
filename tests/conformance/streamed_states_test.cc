// Optimizer states that lie on the host and pass through the GPU's own update, some elements at a
// time: the bits of a run are those of one that keeps them on the GPU, under every way to share
// them; and the closed form follows the program.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "core/error.h"
#include "core/program_text.h"
#include "core/verify.h"
#include "models/presets.h"
#include "planner/cost/estimate.h"
#include "planner/cost/offload_cost.h"
#include "planner/lower/lower.h"
#include "planner/plan/rules.h"
#include "tests/conformance/simulated_step.h"
#include "tests/conformance/training.h"

namespace trireme::conformance {
namespace {

using planner::Job;
using planner::Plan;
using planner::Sharding;

constexpr std::int64_t kBatch = 8;
constexpr std::int64_t kChunk = 96;  // elements: many chunks of a unit, and a last one that is cut

struct Layout {
  const char* form;
  Sharding sharding = Sharding::kNone;
  std::int64_t lora_rank = 0, frozen = 0, unit = 1;
  bool reshard = true;
  const char* model = "llama";
};
constexpr Layout kLayouts[] = {
    {.form = "mb1"},
    {.form = "dp2"},
    {.form = "tp2"},
    {.form = "pp2"},
    {.form = "cp2"},
    {.form = "fsdp2", .sharding = Sharding::kOptimizer},
    {.form = "dp2.fsdp2", .sharding = Sharding::kGradients},
    {.form = "fsdp4", .sharding = Sharding::kFull},
    {.form = "fsdp2", .sharding = Sharding::kFull, .unit = 2, .reshard = false},
    {.form = "tp2.pp2.fsdp2", .sharding = Sharding::kFull},
    {.form = "fsdp2", .sharding = Sharding::kFull, .lora_rank = 3},
    {.form = "tp2", .lora_rank = 3},
    {.form = "fsdp2", .sharding = Sharding::kFull, .frozen = 2},
    {.form = "pp2", .frozen = 2},
    {.form = "pp2", .model = "gpt"},
    {.form = "fsdp2", .sharding = Sharding::kOptimizer, .model = "gpt"}};

Plan plan_of(const Layout& layout) {
  Plan plan = planner::parse_short_form(layout.form);
  plan.micro_batches = kBatch / plan.data_parallel();
  plan.sharding = layout.sharding;
  plan.fsdp_unit = layout.unit;
  plan.reshard_after_forward = layout.reshard;
  return plan;
}

Job job_of(const Layout& layout, bool streams) {
  Job job = small_trained_job(layout.model, layout.lora_rank, layout.frozen);
  job.offload = streams ? planner::parse_offload("optimizer") : planner::Offload{};
  return job;
}

TEST(StreamedStates, GiveTheBitsOfStatesThatStay) {
  for (const Layout& layout : kLayouts) {
    SCOPED_TRACE(fmt::format("{} {} {}", layout.model, layout.form, to_string(layout.sharding)));
    const Plan plan = plan_of(layout);
    const Outcome stay = train(job_of(layout, false), plan, 3, kShuffled, false);
    const Outcome stream =
        train(job_of(layout, true), plan, 3, kShuffled, false, Ranks::kThreads, kChunk);
    EXPECT_EQ(stream.losses, stay.losses);
    EXPECT_EQ(stream.gradient_norms, stay.gradient_norms);
    EXPECT_EQ(stream.parameters, stay.parameters);
    EXPECT_EQ(stream.allocator_peaks, stream.liveness_peaks);
  }
}

TEST(StreamedStates, LieOnTheHostAndOnlyCopiesTouchThem) {
  for (const Layout& layout : kLayouts) {
    Job job = job_of(layout, true);
    const Plan plan = plan_of(layout);
    job.cluster.gpus = plan.gpus();
    const StepProgram program =
        planner::lower(job, plan, {.widths = {}, .executable = true, .streamed_elements = kChunk});
    ASSERT_TRUE(verify(program).empty()) << verify(program).front();
    EXPECT_EQ(parse_program(print(program), "here"), program);
    for (const Program& role : program.roles) {
      Bytes states;
      for (const ParameterUnit& unit : role.units) {
        for (const State state : {State::kMaster, State::kMoment1, State::kMoment2}) {
          const Operand& operand = unit.states[static_cast<std::size_t>(state)].operand;
          states += operand.count > 0 ? size_of(program, role, operand) : Bytes(0);
        }
      }
      EXPECT_GT(states.value, 0);
      EXPECT_EQ(liveness(program, role).host.value, states.value);
    }
  }
}

TEST(StreamedStates, WhatElseIsOffloadedIsRefusedByName) {
  for (const char* offload : {"optimizer=0.5", "optimizer=nvme", "optimizer,gradients",
                              "parameters", "activations=nvme"}) {
    Job job = job_of({.form = "mb1"}, false);
    job.offload = planner::parse_offload(offload);
    try {
      planner::lower(job, plan_of({.form = "mb1"}));
      ADD_FAILURE() << offload;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("offload other than"), std::string::npos)
          << error.what();
    }
  }
}

struct Real {
  const char* model;
  const char* form;
  Sharding sharding = Sharding::kNone;
  std::int64_t micro_batch = 1, lora_rank = 0;
};
constexpr Real kReal[] = {{"llama-3.2-1b", "mb2"},
                          {"llama-3.2-1b", "dp2"},
                          {"llama-3.2-1b", "tp2"},
                          {"llama-3.2-1b", "pp2"},
                          {"llama-3.2-1b", "fsdp2", Sharding::kOptimizer},
                          {"llama-3.2-1b", "fsdp2", Sharding::kGradients},
                          {"llama-3.2-1b", "fsdp2", Sharding::kFull},
                          {"llama-3.2-1b", "fsdp2", Sharding::kFull, 2, 16},
                          {"gpt3-1.3b", "fsdp2", Sharding::kFull, 2},
                          {"llama-3.1-8b", "fsdp2", Sharding::kFull}};

// The last chunk's way back and the first one's way in are all that a step shows beside the link.
TEST(StreamedStates, TheClosedFormFollowsTheProgram) {
  for (const Real& real : kReal) {
    Job job;
    job.model = models::load_model(real.model);
    job.framework = planner::find_framework("trireme");
    job.profile = topologies::shipped_profile();
    job.sequence = 2048;
    job.offload = planner::parse_offload("optimizer");
    job.training.rank = real.lora_rank;
    job.training.targets = planner::adapter_targets_of("all-linear");
    Plan plan = planner::parse_short_form(real.form);
    plan.sharding = real.sharding;
    plan.micro_batch = real.micro_batch;
    plan.micro_batches = 4;
    job.cluster = topologies::narrowed(topologies::load_cluster("hgx-h200"), plan.gpus());
    job.global_batch = plan.micro_batch * plan.micro_batches * plan.data_parallel();
    SCOPED_TRACE(fmt::format("{} {} {}", real.model, real.form, to_string(real.sharding)));
    ASSERT_FALSE(planner::check_plan(job, plan).has_value());
    const StepProgram program = planner::lower(job, plan);
    planner::Estimate estimate;
    planner::Estimator(job).estimate(plan, estimate);
    const double simulated = tests::simulated_seconds(job, program);
    EXPECT_NEAR(estimate.time.step_seconds / simulated, 1, 0.04);
    double allocated = 0;
    double host = 0;
    for (const Program& role : program.roles) {
      const Liveness live = liveness(program, role);
      allocated = std::max(allocated, to_gib(live.peak));
      host = std::max(host, to_gib(live.host));
    }
    EXPECT_NEAR(estimate.memory.allocated_gib / allocated, 1, 0.03);
    EXPECT_NEAR(estimate.memory.stages[estimate.memory.peak_stage].host_bytes / (1 << 30) / host, 1,
                real.form == std::string("pp2") ? 0.2 : 0.01);
    fmt::print("{} {} {}: step {:+.1f} %, memory {:+.1f} %, host {:.2f} GiB\n", real.model,
               real.form, to_string(real.sharding),
               100 * (estimate.time.step_seconds / simulated - 1),
               100 * (estimate.memory.allocated_gib / allocated - 1), host);
  }
}

}  // namespace
}  // namespace trireme::conformance
