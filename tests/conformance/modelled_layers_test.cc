// Plans of models with experts and long sequences, and of those whose layers are timed and not
// executed (latent attention, parallel blocks, extra norms, ALiBi): their programs are sound, do
// the model's FLOP, move what the experts' exchange takes, and their walk is near the closed form.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/program_text.h"
#include "core/verify.h"
#include "models/presets.h"
#include "planner/cost/time.h"
#include "planner/lower/arithmetic.h"
#include "planner/lower/lower.h"
#include "planner/plan/rules.h"
#include "planner/walk/step_times.h"
#include "planner/walk/walk.h"

namespace trireme {
namespace {

struct Case {
  const char* model;
  const char* cluster;
  const char* plan;
  std::int64_t sequence, micro_batches;
  bool runs = false;  // every layer has kernels
};

const std::vector<Case> kCases = {
    {"mixtral-8x7b", "dgx-h100x8", "tp2.ep8.fsdp8.dp4.mb1", 4096, 4, true},
    {"mixtral-8x7b", "dgx-h100x8", "tp4.pp4.dp4.ep4.mb1.zb-h1", 4096, 8, true},
    {"deepseek-v2-lite", "dgx-h100x2", "ep8.fsdp16.mb1", 4096, 2, true},
    {"deepseek-v3", "dgx-h100x256", "pp16.ep64.fsdp128.mb1.zero1", 4096, 32},
    {"gemma-2-9b", "dgx-h100x1", "tp2.fsdp4.mb1", 4096, 2, true},
    {"falcon-7b", "dgx-h100x1", "fsdp8.mb1", 2048, 2, true},
    {"bloom-7b1", "dgx-h100x1", "tp2.pp4.mb1", 2048, 8},
    {"llama-3.1-8b", "dgx-h100x2", "cp4.fsdp4.mb1", 32768, 2, true},
    {"llama-3.1-70b", "dgx-h100x8", "tp8.cp2.pp4.mb1", 16384, 8, true},
    {"gpt-oss-20b", "dgx-h100x1", "ep8.fsdp8.mb1", 4096, 2},
    {"kimi-k2", "dgx-h100x256", "pp16.ep32.fsdp128.mb1.rc-full.zero1", 4096, 32, true},
};

planner::Job job_of(const Case& drawn, planner::Plan& plan) {
  planner::Job job;
  job.model = models::load_model(drawn.model);
  job.framework = planner::find_framework("trireme");
  job.profile = topologies::shipped_profile();
  job.profile.frameworks["trireme"] = {{"overlap_slowdown", 0.0}};
  plan = planner::parse_short_form(drawn.plan);
  plan.micro_batches = drawn.micro_batches;
  job.sequence = drawn.sequence;
  job.global_batch = plan.micro_batches * plan.micro_batch * plan.data_parallel();
  job.cluster = topologies::narrowed(topologies::load_cluster(drawn.cluster), plan.gpus());
  return job;
}

double flop_of(const StepProgram& program) {
  double flop = 0;
  for (const Program& role : program.roles) {
    for (const Op& op : role.ops) {
      const auto* compute = std::get_if<Compute>(&op.kind);
      if (compute != nullptr && op.origin.phase != Phase::kRecompute) {
        flop += role.works[compute->work].flop.value;
      }
    }
  }
  return flop * static_cast<double>(program.ranks) / static_cast<double>(program.roles.size());
}

TEST(ModelledLayers, ProgramsAreSoundAndNearTheClosedForm) {
  for (const Case& drawn : kCases) {
    SCOPED_TRACE(std::string(drawn.model) + " " + drawn.plan);
    planner::Plan plan;
    const planner::Job job = job_of(drawn, plan);
    const StepProgram program = planner::lower(job, plan);
    const std::vector<std::string> problems = verify(program);
    ASSERT_TRUE(problems.empty()) << problems.front();
    // Flash attention's backward makes five products of scores where the model's FLOP count four.
    const double model_flop =
        models::model_flop_per_token(job.model, job.sequence, models::FlopConvention::kHalfCausal)
            .value *
        static_cast<double>(job.sequence * job.global_batch);
    EXPECT_GE(flop_of(program) / model_flop, 0.99);
    EXPECT_LE(flop_of(program) / model_flop, 1.07);
    const Trace trace =
        planner::walk(program, planner::time_ops(job, program), {.keep_timings = false});
    planner::TimeModel model(job);
    planner::TimeEstimate estimate;
    model.estimate(plan, estimate);
    const double walked = to_seconds(trace.step_times.front()).value;
    EXPECT_NEAR(estimate.step_seconds / walked, 1.0, 0.25);
    if (drawn.runs) {
      planner::lower(job, plan, {.widths = {}, .executable = true});
    } else {
      EXPECT_THROW(planner::lower(job, plan, {.widths = {}, .executable = true}), Error);
    }
  }
}

TEST(ModelledLayers, TextParsesBack) {
  planner::Plan plan;
  const planner::Job job = job_of(kCases[2], plan);
  const StepProgram program = planner::lower(job, plan);
  EXPECT_TRUE(parse_program(print(program), "program") == program);
}

// Numbers of transformers' modeling_rope_utils.py for the same configurations.
TEST(Arithmetic, RotaryFrequenciesAreTheModelsOwn) {
  const models::Transformer llama = models::load_model("llama-3.1-8b");
  const RotaryTable table = planner::lowering::arithmetic_of(llama, 8192).rotary.at(0);
  ASSERT_EQ(table.frequencies.size(), 64U);
  EXPECT_EQ(table.frequencies[0], 1.0);
  EXPECT_NEAR(table.frequencies[20] / 0.016560440080994446, 1, 1e-12);
  EXPECT_NEAR(table.frequencies[30] / 0.0013718935677611381, 1, 1e-9);
  EXPECT_NEAR(table.frequencies[63] / 3.068925988914511e-07, 1, 1e-12);
  const models::Transformer deepseek = models::load_model("deepseek-v2-lite");
  const Arithmetic arithmetic = planner::lowering::arithmetic_of(deepseek, 4096);
  const RotaryTable& yarn = arithmetic.rotary.at(0);
  ASSERT_EQ(yarn.frequencies.size(), 32U);
  EXPECT_TRUE(yarn.neighbours);
  EXPECT_EQ(yarn.scale, 1) << "mscale and mscale_all_dim are equal";
  EXPECT_NEAR(yarn.frequencies[12] / 0.026879360111431223, 1, 1e-12);
  EXPECT_NEAR(yarn.frequencies[16] / 0.0055, 1, 1e-12);
  EXPECT_NEAR(yarn.frequencies[31] / 3.33380358040831e-06, 1, 1e-12);
  const double stretch = 0.1 * 0.707 * std::log(40.0) + 1;  // its mscale_all_dim
  EXPECT_NEAR(arithmetic.attention_scale, stretch * stretch / std::sqrt(192.0), 1e-12);
}

// Some of these were trained as if the function did not have them.
TEST(Arithmetic, WhatNothingComputesHasAName) {
  models::Transformer model = models::load_model("llama-3.1-8b");
  EXPECT_EQ(planner::lowering::uncomputed_part(model), "");
  const auto part_with = [&](auto change) {
    models::Transformer changed = model;
    change(changed);
    return planner::lowering::uncomputed_part(changed);
  };
  EXPECT_NE(part_with([](auto& m) { m.function.qkv_clip = 8; }), "");
  EXPECT_NE(part_with([](auto& m) { m.function.up_offset = 1; }), "");
  EXPECT_NE(part_with([](auto& m) { m.function.activation_limit = 7; }), "");
  EXPECT_NE(part_with([](auto& m) { m.function.query_growth = 0.1; }), "");
  EXPECT_NE(part_with([](auto& m) { m.function.residual_after_norm = true; }), "");
  EXPECT_NE(part_with([](auto& m) { m.function.scales_by_layer = true; }), "");
  EXPECT_NE(part_with([](auto& m) { m.function.chunked_windows = true; }), "");
  EXPECT_NE(part_with([](auto& m) { m.function.qk_norm_unweighted = true; }), "");
  EXPECT_NE(part_with([](auto& m) { m.head_bias = true; }), "");
  EXPECT_NE(part_with([](auto& m) {
              m.norm = models::Norm::kLayerNorm;
              m.norm_bias = false;
            }),
            "");
  model = models::load_model("mixtral-8x7b");
  EXPECT_NE(part_with([](auto& m) { m.function.router_scales_input = true; }), "");
  EXPECT_NE(part_with([](auto& m) { m.function.router_sparsemixer = true; }), "");
  EXPECT_NE(part_with([](auto& m) { m.moe->router_bias = true; }), "");
  EXPECT_EQ(planner::lowering::parts_left_out(model).size(), 1U) << "its balancing loss";
}

TEST(ModelledLayers, EveryRoutedTokenIsExchangedOnceEachWay) {
  planner::Plan plan;
  const planner::Job job = job_of(kCases[0], plan);
  const StepProgram program = planner::lower(job, plan);
  std::int64_t sent = 0;
  for (const Op& op : program.roles[0].ops) {
    const auto* exchange = std::get_if<AllToAll>(&op.kind);
    if (exchange != nullptr && exchange->row > 0) {
      // What leaves or arrives is all of one side; the other has room for an uneven load.
      const auto bytes = [&](std::size_t operand) {
        return size_of(program, program.roles[0],
                       program.roles[0].operands[op.operands.first + operand])
            .value;
      };
      sent += std::min(bytes(0), bytes(1));
    }
  }
  // 32 layers x 4 micro-batches x (2 forward + 2 backward), each 2 bytes x tokens x hidden x 2
  // experts a token: both tensor ranks send all tokens to their halves of the experts.
  EXPECT_EQ(sent, std::int64_t{32} * 4 * 4 * 2 * 4096 * 4096 * 2);
}

// A layer's routed experts are a unit beside it. Prefetch counted units: they were gathered in
// their own layer's visit, and a layer's gradients waited for those of the layer just before.
TEST(ModelledLayers, ExpertsAreGatheredAheadWithTheirLayer) {
  planner::Plan plan;
  const planner::Job job = job_of({"mixtral-8x7b", "dgx-h100x1", "fsdp8.mb1", 2048, 1}, plan);
  const StepProgram program = planner::lower(job, plan);
  const Program& role = program.roles[0];
  int gathered_before = 0;  // layer 2's own and its experts', before layer 2's forward begins
  for (const Op& op : role.ops) {
    if (op.origin.layer != 2) {
      continue;
    }
    if (op.origin.phase == Phase::kForward) {
      break;
    }
    gathered_before += std::holds_alternative<AllGather>(op.kind) ? 1 : 0;
  }
  EXPECT_EQ(gathered_before, 2);
}

// A program read from text may say any width; it was cast to one that no product has.
TEST(ModelledLayers, AProductOfAnUnknownWidthIsRefused) {
  planner::Plan plan;
  const planner::Job job = job_of({"bloom-7b1", "dgx-h100x1", "tp2.pp4.mb1", 2048, 8}, plan);
  StepProgram program = planner::lower(job, plan);
  for (Work& work : program.roles.front().works) {
    work.dims[4] = work.kernel == Kernel::kModelledMatmul ? 7 : work.dims[4];
  }
  try {
    planner::time_ops(job, program);
    FAIL() << "a product of width 7 was timed";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("wide 7"), std::string::npos) << error.what();
  }
}

// Copies of the experts over tensor ranks, on one data-parallel rank: their sums were not in the
// closed form, and the optimizer stepped over all of them as if nothing were shared.
TEST(ModelledLayers, ExpertsCopiedOverTensorRanksAreReduced) {
  planner::Plan plan;
  const planner::Job job =
      job_of({"qwen3-30b-a3b", "dgx-h100x2", "tp4.pp4.mb1.rc-full.nosp", 4096, 8}, plan);
  plan.expert_tensor = 1;
  plan.sharding = planner::Sharding::kOptimizer;
  ASSERT_FALSE(planner::check_plan(job, plan));
  const StepProgram program = planner::lower(job, plan);
  const Trace trace =
      planner::walk(program, planner::time_ops(job, program), {.keep_timings = false});
  planner::TimeModel model(job);
  planner::TimeEstimate estimate;
  model.estimate(plan, estimate);
  EXPECT_GT(estimate.exposed.data_parallel, 0);
  EXPECT_NEAR(estimate.step_seconds / to_seconds(trace.step_times.front()).value, 1, 0.03);
}

// Its products stand among the layer's others, and what the ranks exchange was left out with them.
TEST(ModelledLayers, UnfusedAttentionOfSharedSequencesExchangesKeysOrHeads) {
  const Case drawn = {"pythia-1.4b", "dgx-h100x1", "cp8.mb1", 16384, 2};
  for (const char* setting : {"context_gather", "context_all_to_all", "ring"}) {
    planner::Plan plan;
    planner::Job job = job_of(drawn, plan);
    job.attention = models::AttentionKernel::kUnfused;
    job.framework.context_gather = std::string(setting) == "context_gather";
    job.framework.context_all_to_all = std::string(setting) == "context_all_to_all";
    SCOPED_TRACE(setting);
    const StepProgram program = planner::lower(job, plan);
    EXPECT_TRUE(verify(program).empty());
    const Trace trace =
        planner::walk(program, planner::time_ops(job, program), {.keep_timings = false});
    const double walked = to_seconds(trace.step_times.front()).value;
    planner::TimeEstimate estimate;
    planner::TimeModel(job).estimate(plan, estimate);
    EXPECT_GT(estimate.exposed.context_parallel, 0.04 * walked);
    EXPECT_NEAR(estimate.step_seconds / walked, 1, 0.02);
  }
}

TEST(ModelledLayers, TheBoundOnAProgramsOpsCountsTheRingsSteps) {
  planner::Plan plan;
  planner::Job job = job_of({"pythia-1.4b", "dgx-h100x1", "cp8.mb1", 2048, 6000}, plan);
  job.framework.context_gather = false;
  EXPECT_THROW(planner::lower(job, plan), Error);
}

}  // namespace
}  // namespace trireme
