// Every layout gives the loss, gradients and trained parameters of the single-rank plan, in double
// precision: the strongest test of lowering there is. The same runs hold the allocator's peak to
// the program's liveness peak.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "tests/conformance/training.h"

namespace trireme::conformance {
namespace {

using planner::Plan;
using planner::Recompute;
using planner::Schedule;
using planner::Sharding;

struct Layout {
  std::string model;
  std::string framework;
  Plan plan;
};

constexpr std::int64_t kBatch = 8;

// A plan from its short form and what else is to be set.
Plan plan_of(
    const std::string& form, const std::function<void(Plan&)>& choose = [](Plan&) {}) {
  Plan plan = planner::parse_short_form(form);
  choose(plan);
  return plan;
}

// Fills in the micro-batches, so that all layouts train on the same 8 sequences.
Plan whole(Plan plan) {
  plan.micro_batches = kBatch / (plan.data_parallel() * plan.micro_batch);
  return plan;
}

std::string describe(const Layout& layout) {
  const Plan& p = layout.plan;
  return fmt::format("{} {} {} {} vpp{} {}{} {}{} unit{} {} mb{}x{}", layout.model,
                     layout.framework, planner::short_form(p), planner::to_string(p.schedule),
                     p.virtual_pipeline, planner::to_string(p.sharding),
                     p.sequence_parallel ? " sp" : "", planner::to_string(p.recompute),
                     p.recompute_layers, p.fsdp_unit, p.reshard_after_forward ? "reshard" : "keep",
                     p.micro_batch, p.micro_batches);
}

const runtime::cpu::CpuOptions kDouble{
    .arithmetic = runtime::cpu::Arithmetic::kFp64, .shuffle_seed = 0, .poison = true};

const Outcome& single_rank(const std::string& model) {
  static std::map<std::string, Outcome> known;
  if (!known.contains(model)) {
    known[model] =
        train(small_job(small_model(model), "trireme"), whole(plan_of("mb8")), 3, kDouble);
  }
  return known.at(model);
}

void expect_same(const Layout& layout, const runtime::cpu::CpuOptions& options) {
  SCOPED_TRACE(describe(layout));
  Outcome outcome;
  try {
    outcome =
        train(small_job(small_model(layout.model), layout.framework), layout.plan, 3, options);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
    return;
  }
  const Outcome& expected = single_rank(layout.model);
  ASSERT_EQ(outcome.losses.size(), 3U);
  ASSERT_EQ(expected.losses.size(), 3U);
  EXPECT_NEAR(outcome.losses[0], expected.losses[0], 1e-12 * expected.losses[0]);
  EXPECT_NEAR(outcome.losses[2], expected.losses[2], 1e-8 * expected.losses[2]);
  EXPECT_LT(largest_difference(outcome.gradients, expected.gradients, 1e-3), 1e-10);
  EXPECT_LT(largest_difference(outcome.parameters, expected.parameters, 1e-3), 1e-8);
  ASSERT_EQ(outcome.gradient_norms.size(), 3U);
  EXPECT_NEAR(outcome.gradient_norms[0], expected.gradient_norms[0],
              1e-10 * expected.gradient_norms[0]);
  EXPECT_EQ(outcome.allocator_peaks, outcome.liveness_peaks);
}

TEST(Layouts, TheSingleRankLearns) {
  for (const char* model : {"gpt", "llama", "qwen"}) {
    const Outcome& outcome = single_rank(model);
    ASSERT_EQ(outcome.losses.size(), 3U) << model;
    EXPECT_NEAR(outcome.losses[0], std::log(64.0), 0.1)
        << model;  // a fresh model is close to uniform
    EXPECT_LT(outcome.losses[2], outcome.losses[0]) << model;
    EXPECT_EQ(outcome.allocator_peaks, outcome.liveness_peaks) << model;
  }
}

std::vector<Layout> with_models(const std::vector<Plan>& plans,
                                const std::vector<std::string>& models,
                                const std::string& framework) {
  std::vector<Layout> layouts;
  for (const std::string& model : models) {
    for (const Plan& plan : plans) {
      layouts.push_back({model, framework, whole(plan)});
    }
  }
  return layouts;
}

void expect_all_same(const std::vector<Layout>& layouts) {
  for (const Layout& layout : layouts) {
    expect_same(layout, kDouble);
  }
}

TEST(Layouts, UnevenAndDeepPipelines) {
  expect_all_same(with_models(
      {
          plan_of("pp8.mb1"),
          plan_of("pp2.vpp4.mb2", [](Plan& p) { p.schedule = Schedule::kInterleaved; }),
          plan_of("pp2.mb2",
                  [](Plan& p) {
                    p.stage_layers = {5, 3};
                  }),
          plan_of("pp4.mb1.layers0-4-4-0"),  // embedding and head alone
          plan_of("pp2.vpp2.fsdp2.mb1.layers0-3-5-0",
                  [](Plan& p) { p.schedule = Schedule::kInterleaved; }),
          plan_of("pp2.fsdp2.dp2.mb1",
                  [](Plan& p) {
                    p.sharding = Sharding::kFull;
                    p.fsdp_unit = 3;
                  }),
          plan_of("tp4.fsdp2.mb2",
                  [](Plan& p) {
                    p.sharding = Sharding::kFull;
                    p.sequence_parallel = true;
                  }),
      },
      {"gpt", "qwen"}, "trireme"));
}

// Memory of gradients begins and ends within the step: the same numbers, to the bit, in less room.
TEST(Layouts, FreedGradientsTrainAlike) {
  const auto sharded = [](Sharding sharding, std::int64_t unit, bool reshard) {
    return [=](Plan& p) {
      p.sharding = sharding;
      p.fsdp_unit = unit;
      p.reshard_after_forward = reshard;
    };
  };
  const std::vector<Plan> plans = {plan_of("mb8"),
                                   plan_of("tp2.mb8"),
                                   plan_of("dp2.mb4"),
                                   plan_of("fsdp4.mb2", sharded(Sharding::kFull, 1, true)),
                                   plan_of("tp2.fsdp2.dp2.mb2", sharded(Sharding::kFull, 3, false)),
                                   plan_of("fsdp8.mb1", sharded(Sharding::kGradients, 1, true)),
                                   plan_of("fsdp4.dp2.mb1", sharded(Sharding::kOptimizer, 1, true)),
                                   plan_of("fsdp2.mb4", [](Plan& p) {
                                     p.sharding = Sharding::kFull;
                                     p.recompute = Recompute::kFull;
                                   })};
  for (const Layout& layout : with_models(plans, {"gpt", "llama", "qwen"}, "trireme")) {
    SCOPED_TRACE(describe(layout));
    const planner::Job job = small_job(small_model(layout.model), layout.framework);
    const Outcome kept = train(job, layout.plan, 3, kDouble);
    const Outcome freed = train(job, layout.plan, 3, kDouble, false);
    ASSERT_EQ(freed.losses.size(), 3U);
    EXPECT_EQ(freed.losses, kept.losses);
    EXPECT_EQ(freed.gradient_norms, kept.gradient_norms);
    EXPECT_EQ(freed.parameters, kept.parameters);
    EXPECT_EQ(freed.allocator_peaks, freed.liveness_peaks);
    for (std::size_t rank = 0; rank < freed.liveness_peaks.size(); ++rank) {
      EXPECT_LE(freed.liveness_peaks[rank], kept.liveness_peaks[rank]);
    }
  }
}

TEST(Layouts, OtherFrameworksPrograms) {
  const Plan sharded = plan_of("fsdp4.mb1", [](Plan& p) { p.sharding = Sharding::kFull; });
  const Plan recomputed = plan_of("pp2.dp2.mb1", [](Plan& p) { p.recompute = Recompute::kFull; });
  const Plan product =
      plan_of("tp2.pp2.fsdp2.mb1", [](Plan& p) { p.sharding = Sharding::kOptimizer; });
  for (const char* framework : {"fsdp1", "fsdp2", "deepspeed", "megatron-fsdp"}) {
    expect_all_same(with_models({sharded}, {"llama"}, framework));
  }
  expect_all_same(with_models({recomputed}, {"llama"}, "fsdp2"));
  expect_all_same(with_models({product, recomputed}, {"gpt", "llama"}, "megatron"));
}

// Orders that streams and waits allow but a quick host never shows: each must give the same bits as
// issue order.
TEST(Layouts, EveryOrderThatWaitsAllow) {
  const auto shard_all = [](Plan& p) {
    p.sharding = Sharding::kFull;
    p.sequence_parallel = p.tensor > 1;
  };
  const std::vector<Plan> plans = {
      plan_of("fsdp4.mb1", shard_all),
      plan_of("tp2.pp2.fsdp2.mb1", shard_all),
      plan_of("pp2.vpp2.dp2.mb1", [](Plan& p) { p.schedule = Schedule::kInterleaved; }),
      plan_of("fsdp2.dp2.mb1", [](Plan& p) { p.sharding = Sharding::kOptimizer; }),
  };
  for (const Layout& layout : with_models(plans, {"llama"}, "trireme")) {
    SCOPED_TRACE(describe(layout));
    const planner::Job job = small_job(small_model(layout.model), layout.framework);
    const Outcome calm = train(job, layout.plan, 2, kDouble);
    for (const std::uint64_t seed : {1U, 2U, 3U}) {
      runtime::cpu::CpuOptions shuffled = kDouble;
      shuffled.shuffle_seed = seed;
      const Outcome outcome = train(job, layout.plan, 2, shuffled);
      EXPECT_EQ(outcome.losses, calm.losses) << "shuffle seed " << seed;
      EXPECT_EQ(outcome.parameters, calm.parameters) << "shuffle seed " << seed;
    }
  }
}

// As on several hosts: what a rank brings is copied to the others, who add up in the same order.
TEST(Layouts, AProcessEachGivesTheBitsOfThreads) {
  const auto shard_all = [](Plan& p) { p.sharding = Sharding::kFull; };
  const std::vector<Plan> plans = {plan_of("fsdp4.mb1", shard_all),
                                   plan_of("tp2.pp2.fsdp2.mb1", shard_all), plan_of("cp2.dp2.mb1")};
  for (const Layout& layout : with_models(plans, {"llama"}, "trireme")) {
    SCOPED_TRACE(describe(layout));
    const planner::Job job = small_job(small_model(layout.model), layout.framework);
    const Outcome threads = train(job, layout.plan, 2, kDouble);
    const Outcome processes = train(job, layout.plan, 2, kDouble, true, Ranks::kProcesses);
    ASSERT_EQ(threads.losses.size(), 2U);
    EXPECT_EQ(processes.losses, threads.losses);
    EXPECT_EQ(processes.gradient_norms, threads.gradient_norms);
    EXPECT_EQ(processes.gradients, threads.gradients);
    EXPECT_EQ(processes.parameters, threads.parameters);
  }
}

}  // namespace
}  // namespace trireme::conformance
