// What layers keep for their backward, on the host meanwhile: the bits of a run are those of one
// that keeps it on the GPU, in less of its memory; and the closed form follows the program.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/program_text.h"
#include "core/verify.h"
#include "models/presets.h"
#include "planner/cost/estimate.h"
#include "planner/lower/lower.h"
#include "planner/plan/rules.h"
#include "tests/conformance/simulated_step.h"
#include "tests/conformance/tiny_jobs.h"
#include "tests/conformance/training.h"

namespace trireme::conformance {
namespace {

using planner::Job;
using planner::Plan;
using planner::Recompute;
using planner::Schedule;
using planner::Sharding;

constexpr std::int64_t kBatch = 8;

struct Layout {
  const char* form;
  const char* model = "llama";
  const char* offload = "activations";
  Recompute recompute = Recompute::kNone;
  Sharding sharding = Sharding::kNone;
  Schedule schedule = Schedule::kOneForwardOneBackward;
  std::int64_t chunks = 1, lora_rank = 0, frozen = 0;
  const char* setting = "";
};
constexpr Layout kLayouts[] = {
    {.form = "mb1"},
    {.form = "mb1", .recompute = Recompute::kFull},
    {.form = "mb1", .recompute = Recompute::kSelective},
    {.form = "mb8", .offload = "activations=0.5"},
    {.form = "mb1", .offload = "activations,optimizer"},
    {.form = "dp2", .model = "gpt"},
    {.form = "dp2", .model = "qwen"},
    {.form = "tp2"},
    {.form = "cp2", .recompute = Recompute::kFull},
    {.form = "cp2", .setting = "context_gather=false"},
    {.form = "cp2", .setting = "context_all_to_all=true"},
    {.form = "fsdp4", .recompute = Recompute::kFull, .sharding = Sharding::kFull},
    {.form = "pp2"},
    {.form = "pp2", .recompute = Recompute::kFull, .schedule = Schedule::kGpipe},
    {.form = "pp2", .schedule = Schedule::kZeroBubbleH1},
    {.form = "pp2", .schedule = Schedule::kInterleaved, .chunks = 2},
    {.form = "pp2", .schedule = Schedule::kZeroBubbleV, .chunks = 2},
    {.form = "tp2.pp2.fsdp2", .sharding = Sharding::kFull},
    {.form = "fsdp2", .sharding = Sharding::kFull, .lora_rank = 3},
    {.form = "mb1", .frozen = 2}};

Plan plan_of(const Layout& layout) {
  Plan plan = planner::parse_short_form(layout.form);
  plan.micro_batches = kBatch / (plan.data_parallel() * plan.micro_batch);
  plan.recompute = layout.recompute;
  plan.sharding = layout.sharding;
  plan.schedule = layout.schedule;
  plan.virtual_pipeline = layout.chunks;
  return plan;
}

Job job_of(const Layout& layout, bool offloads) {
  Job job = small_trained_job(layout.model, layout.lora_rank, layout.frozen);
  const std::string setting = layout.setting;
  if (const std::size_t at = setting.find('='); at != std::string::npos) {
    planner::apply_setting(job.framework, setting.substr(0, at), setting.substr(at + 1));
  }
  job.offload = offloads ? planner::parse_offload(layout.offload) : planner::Offload{};
  return job;
}

TEST(KeptOnHost, GivesTheBitsOfWhatStays) {
  for (const Layout& layout : kLayouts) {
    SCOPED_TRACE(fmt::format("{} {} {} {} {} {}", layout.model, layout.form, layout.offload,
                             to_string(layout.recompute), to_string(layout.schedule),
                             layout.setting));
    const Plan plan = plan_of(layout);
    const Outcome stay = train(job_of(layout, false), plan, 3, kShuffled, false);
    const Outcome moved = train(job_of(layout, true), plan, 3, kShuffled, false);
    EXPECT_EQ(moved.losses, stay.losses);
    EXPECT_EQ(moved.gradient_norms, stay.gradient_norms);
    EXPECT_EQ(moved.parameters, stay.parameters);
    EXPECT_EQ(moved.allocator_peaks, moved.liveness_peaks);
  }
}

// Of layers with experts and latent attention; their counts of rows, which the host reads, stay.
TEST(KeptOnHost, VerifiesForEveryKindOfLayer) {
  for (models::Transformer model : {tests::expert_shape(true), tests::latent_shape(true),
                                    tests::parallel_shape(true), tests::post_norm_shape()}) {
    model.layers = 8;
    model.moe_layers.resize(model.moe ? 8 : 0, true);
    Job job = tests::job_of(model, 8, 4);
    job.offload = planner::parse_offload("activations");
    const StepProgram program =
        planner::lower(job, tests::plan_of("mb1", 4), {.widths = {}, .executable = true});
    EXPECT_TRUE(verify(program).empty()) << model.name << " " << verify(program).front();
    EXPECT_EQ(parse_program(print(program), "here"), program);
    EXPECT_GT(liveness(program, program.roles[0]).host.value, 0);
    job.offload = {};
    const StepProgram stays =
        planner::lower(job, tests::plan_of("mb1", 4), {.widths = {}, .executable = true});
    EXPECT_LT(liveness(program, program.roles[0]).peak.value,
              liveness(stays, stays.roles[0]).peak.value)
        << model.name;
  }
}

struct Real {
  const char* model;
  const char* form;
  std::int64_t sequence;
  Recompute recompute = Recompute::kNone;
  Sharding sharding = Sharding::kNone;
  const char* offload = "activations";
  std::int64_t frozen = 0, recompute_layers = -1;
  topologies::Precision precision = topologies::Precision::kBf16;
};
constexpr Real kReal[] = {
    {"llama-3.2-1b", "mb1", 8192, Recompute::kFull},
    {"llama-3.2-1b", "mb1", 65536, Recompute::kFull},
    {"llama-3.2-1b", "mb1", 16384},
    {"llama-3.1-8b", "fsdp8", 32768, Recompute::kFull, Sharding::kFull},
    {"llama-3.1-8b", "tp2.pp2", 8192},
    {"llama-3.1-8b", "cp4.fsdp2", 131072, Recompute::kFull, Sharding::kFull},
    {"gpt3-1.3b", "fsdp2", 2048, Recompute::kNone, Sharding::kFull},
    // A parallel block keeps its input and its norm's output once.
    {"phi-2", "mb1", 2048},
    {"pythia-1.4b", "dp2", 2048},
    {"mixtral-8x7b", "cp2", 8192},
    {"deepseek-v2-lite", "mb1", 4096},
    {"gemma-2-2b", "mb1", 8192},  // norms behind the halves
    // Copies of some layers hide behind those layers alone.
    {.model = "llama-3.1-8b",
     .form = "fsdp8",
     .sequence = 8192,
     .sharding = Sharding::kFull,
     .offload = "activations=0.5"},
    {.model = "llama-3.2-3b", .form = "mb1", .sequence = 8192, .offload = "activations=0.25"},
    {.model = "mixtral-8x7b", .form = "mb1", .sequence = 4096, .offload = "activations=0.75"},
    {.model = "llama-3.2-3b",
     .form = "mb1",
     .sequence = 4096,
     .offload = "activations",
     .frozen = 12},
    // Repeated layers send their input, the others all that they keep.
    {.model = "llama-3.1-8b",
     .form = "mb1",
     .sequence = 8192,
     .recompute = Recompute::kFull,
     .recompute_layers = 10},
    // Under fp8 inputs of products go in 16 bits.
    {.model = "llama-3.1-8b",
     .form = "tp2.pp2",
     .sequence = 8192,
     .precision = topologies::Precision::kFp8},
    {.model = "llama-3.2-1b",
     .form = "mb1",
     .sequence = 16384,
     .recompute = Recompute::kFull,
     .precision = topologies::Precision::kFp8}};

TEST(KeptOnHost, TheClosedFormFollowsTheProgram) {
  for (const Real& real : kReal) {
    Job job;
    job.model = models::load_model(real.model);
    job.framework = planner::find_framework("trireme");
    job.profile = topologies::shipped_profile();
    job.sequence = real.sequence;
    job.offload = planner::parse_offload(real.offload);
    job.training.frozen_layers = real.frozen;
    job.precision = real.precision;
    Plan plan = planner::parse_short_form(real.form);
    plan.sharding = real.sharding;
    plan.recompute = real.recompute;
    plan.recompute_layers = real.recompute_layers;
    plan.micro_batches = 4;
    job.cluster = topologies::narrowed(topologies::load_cluster("hgx-h200"), plan.gpus());
    job.global_batch = plan.micro_batch * plan.micro_batches * plan.data_parallel();
    SCOPED_TRACE(fmt::format("{} {} {}", real.model, real.form, real.sequence));
    ASSERT_FALSE(planner::check_plan(job, plan).has_value());
    const StepProgram program = planner::lower(job, plan);
    planner::Estimate estimate;
    planner::Estimator(job).estimate(plan, estimate);
    const double simulated = tests::simulated_seconds(job, program);
    double allocated = 0;
    double host = 0;
    for (const Program& role : program.roles) {
      const Liveness live = liveness(program, role);
      allocated = std::max(allocated, to_gib(live.peak));
      host = std::max(host, to_gib(live.host));
    }
    const double step_error = estimate.time.step_seconds / simulated - 1;
    const double memory_error = estimate.memory.allocated_gib / allocated - 1;
    // A process takes room of the host too.
    const double ranks = static_cast<double>(std::min<std::int64_t>(8, plan.gpus()));
    const double host_error = (estimate.memory.host_gib / ranks - 3) / host - 1;
    fmt::print(
        "{} {} {}: step {:.3f} s {:+.1f} %, memory {:.2f} GiB {:+.1f} %, host {:.2f} GiB "
        "{:+.1f} %\n",
        real.model, real.form, real.sequence, simulated, 100 * step_error, allocated,
        100 * memory_error, host, 100 * host_error);
    EXPECT_NEAR(step_error, 0, 0.05);
    EXPECT_NEAR(memory_error, 0, 0.05);
    EXPECT_NEAR(host_error, 0, 0.03);
  }
}

}  // namespace
}  // namespace trireme::conformance
