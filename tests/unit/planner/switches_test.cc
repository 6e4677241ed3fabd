// A plan with its switches against every combination of them that a person could set by hand.
#include "planner/search/switches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "models/presets.h"
#include "planner/plan/rules.h"
#include "planner/search/recommend.h"
#include "planner/search/splits.h"
#include "planner/search/switched_plan.h"
#include "topologies/cluster.h"

namespace trireme::planner {
namespace {

struct SwitchCase {
  const char *model, *cluster, *framework;
  std::int64_t sequence, batch;
};

Job job_of(const SwitchCase& c) {
  Job job;
  job.model = models::load_model(c.model);
  job.cluster = topologies::load_cluster(c.cluster);
  job.framework = find_framework(c.framework);
  job.profile = topologies::shipped_profile();
  job.sequence = c.sequence;
  job.global_batch = c.batch;
  return job;
}

std::optional<Estimate> best_of(const Job& job) {
  SearchOptions options;
  options.best_only = true;
  return search(job, options).best;
}

class Switches : public testing::TestWithParam<SwitchCase> {};

TEST_P(Switches, NoCombinationSetByHandIsFaster) {
  const Job job = job_of(GetParam());
  std::vector<Switch> free;
  for (const Switch& one : switches_of(job, {})) {
    if (!one.changes_numerics) {
      free.push_back(one);
    }
  }
  ASSERT_FALSE(free.empty());
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t set = 0; set < std::size_t{1} << free.size(); ++set) {
    Job other = job;
    bool starts = true;
    for (std::size_t i = 0; i < free.size(); ++i) {
      if ((set >> i & 1U) != 0) {
        switch_on(other, free[i]);
        starts = starts && !lacks_its_need(other, free[i]);
      }
    }
    if (!starts) {
      continue;
    }
    if (const auto best = best_of(other)) {
      least = std::min(least, best->time.step_seconds);
    }
  }
  SearchOptions options;
  options.best_only = true;
  const SwitchedSearch found = search_with_switches(job, options, {});
  ASSERT_TRUE(found.result.best.has_value());
  // Switches that bring less than a millionth each are left off.
  EXPECT_LE(found.result.best->time.step_seconds, least * (1 + 1e-5));
  for (const SwitchGain& gain : found.switches) {
    EXPECT_TRUE(gain.gain_seconds > 0 || gain.makes_fit || is_idle(gain)) << gain.which.name;
    EXPECT_NE(gain.applied, gain.which.changes_numerics) << gain.which.name;
  }
  // What is said to be on is what the estimate was made with.
  Estimate again;
  Estimator(found.job).estimate(found.result.best->plan, again);
  EXPECT_NEAR(again.time.step_seconds, found.result.best->time.step_seconds,
              1e-5 * again.time.step_seconds);
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, Switches,
    testing::Values(SwitchCase{"llama-3.1-8b", "dgx-h100x1", "megatron", 8192, 128},
                    SwitchCase{"llama-3.1-8b", "dgx-h100x1", "fsdp2", 8192, 64},
                    SwitchCase{"llama-3.1-8b", "dgx-a100-80gbx2", "deepspeed", 4096, 64},
                    SwitchCase{"llama-3.2-1b", "dgx-h100x1", "fsdp1", 4096, 64},
                    SwitchCase{"llama-3.1-70b", "dgx-h100x8", "megatron", 8192, 256},
                    SwitchCase{"llama-3.1-70b", "dgx-h100x8", "fsdp2", 8192, 128},
                    SwitchCase{"qwen3-30b-a3b", "dgx-h100x2", "megatron", 4096, 256},
                    SwitchCase{"mixtral-8x7b", "dgx-h100x8", "megatron", 4096, 256},
                    SwitchCase{"llama-3.1-8b", "dgx-h100x16", "deepspeed", 4096, 256},
                    SwitchCase{"llama-3.1-405b", "dgx-h100x128", "megatron", 8192, 512},
                    SwitchCase{"llama-3.1-405b", "dgx-h100x64", "fsdp2", 8192, 256},
                    SwitchCase{"llama-3.1-70b", "dgx-h100x256", "megatron", 4096, 2048}));

TEST(SwitchList, OnesThatChangeNumericsAreOnlyOffered) {
  const Job job = job_of({"llama-3.1-8b", "dgx-h100x1", "megatron", 8192, 128});
  SearchOptions options;
  options.best_only = true;
  const SwitchedSearch found = search_with_switches(job, options, {});
  EXPECT_EQ(found.job.precision, job.precision);
  EXPECT_EQ(found.job.framework.gradient_bytes, job.framework.gradient_bytes);
  EXPECT_TRUE(std::ranges::any_of(found.switches, [](const SwitchGain& gain) {
    return gain.which.name == "fp8" && !gain.applied && gain.gain_seconds > 0;
  }));
  EXPECT_TRUE(std::ranges::any_of(found.switches, [](const SwitchGain& gain) {
    return gain.which.flag == "--cross-entropy-loss-fusion" && gain.applied;
  }));
}

TEST(SwitchList, WhatIsDecidedIsLeftAlone) {
  Job job = job_of({"llama-3.1-8b", "dgx-h100x1", "megatron", 8192, 128});
  apply_setting(job.framework, "cross_entropy_fusion", "false");
  for (const Switch& one : switches_of(job, {"cross_entropy_fusion", "precision"})) {
    EXPECT_NE(one.name, "fused loss");
    EXPECT_NE(one.name, "fp8");
  }
  const SwitchedSearch found = search_with_switches(job, {}, {"cross_entropy_fusion"});
  EXPECT_FALSE(found.job.framework.cross_entropy_fusion);
}

// Under torchtitan without compile no layout could be exported: its TP overlap needs compile.
TEST(SwitchList, WhatNeedsASwitchThatIsDecidedOffIsLeftOff) {
  const Job job = job_of({"llama-3.1-8b", "dgx-h100x1", "fsdp2", 8192, 64});
  for (const Switch& one : switches_of(job, {"compile"})) {
    EXPECT_NE(one.name, "TP overlap");
  }
}

// compile did not pay, and async tensor parallelism, which torchtitan refuses without it, stayed
// on.
TEST(SwitchList, WhatNeedsASwitchGoesWithIt) {
  const Job job = job_of({"gpt2-xl", "dgx-h100x4", "torchtitan", 1024, 128});
  SearchOptions options;
  options.constraints = {parse_constraint("pp=4")};
  const SwitchedSearch found = search_with_switches(job, options, {});
  ASSERT_TRUE(found.result.best);
  EXPECT_TRUE(found.job.framework.compile || !found.job.framework.tp_comm_overlap);
  for (const SwitchGain& gain : switch_gains(job, found.result.best->plan, {})) {
    EXPECT_NE(gain.which.name, "TP overlap");
  }
}

TEST(SwitchList, OwnRuntimeHasNothingToSwitch) {
  EXPECT_TRUE(switches_of(job_of({"llama-3.1-8b", "dgx-h100x1", "trireme", 4096, 64}), {}).empty());
}

TEST(SwitchList, GainsOfOnePlanAreItsOwnDifferences) {
  const Job job = job_of({"llama-3.1-8b", "dgx-h100x1", "megatron", 8192, 64});
  Plan plan = parse_short_form("tp2.fsdp4.mb1.zero1");
  plan.micro_batches = 16;
  Estimate before;
  Estimator(job).estimate(plan, before);
  const std::vector<SwitchGain> gains = switch_gains(job, plan, {});
  ASSERT_FALSE(gains.empty());
  for (const SwitchGain& gain : gains) {
    Job other = job;
    switch_on(other, gain.which);
    Estimate after;
    Estimator(other).estimate(plan, after);
    EXPECT_NEAR(before.time.step_seconds - after.time.step_seconds, gain.gain_seconds, 1e-9);
  }
}

Estimate estimate_of(const Job& job, const char* form, double seconds) {
  Plan plan = parse_short_form(form);
  plan.micro_batches = job.global_batch / plan.data_parallel() / plan.micro_batch;
  Estimate estimate;
  Estimator(job).estimate(plan, estimate);
  estimate.time.step_seconds = seconds;
  return estimate;
}

TEST(Recommend, TheSimplestOfWhatCannotBeToldApartIsFirst) {
  const Job job = job_of({"llama-3.1-8b", "dgx-h100x2", "trireme", 4096, 64});
  SearchResult result;
  result.best = estimate_of(job, "tp2.pp2.vpp2.fsdp4.mb1", 1.000);
  result.alternatives = {estimate_of(job, "tp2.fsdp8.mb1", 1.004),
                         estimate_of(job, "fsdp16.mb1", 1.008),
                         estimate_of(job, "dp16.mb1.rc-full", 1.02)};
  const std::string why = recommend(job, result);
  EXPECT_EQ(short_form(result.best->plan), "fsdp16.mb1");
  ASSERT_EQ(result.alternatives.size(), 3U);
  EXPECT_EQ(short_form(result.alternatives[0].plan), "tp2.fsdp8.mb1");
  EXPECT_EQ(short_form(result.alternatives[1].plan), "tp2.pp2.vpp2.fsdp4.mb1");
  EXPECT_EQ(short_form(result.alternatives[2].plan), "dp16.mb1.rc-full") << "told apart: by time";
  EXPECT_NE(why.find("0.8 % faster"), std::string::npos) << why;
  EXPECT_NE(why.find("simpler"), std::string::npos) << why;
}

// "tie, simpler" stood beside a layout whose advantage was memory alone.
TEST(Recommend, TheAdvantageIsNamedAsItIs) {
  const Job job = job_of({"llama-3.1-8b", "dgx-h100x2", "trireme", 4096, 64});
  const auto word = [&](const char* chosen, const char* faster) {
    return advantage_word(job, estimate_of(job, chosen, 1.004), estimate_of(job, faster, 1.0));
  };
  EXPECT_EQ(word("fsdp16.mb1", "tp2.fsdp8.mb1"), "simpler");
  EXPECT_EQ(word("tp8.dp2.mb1", "tp16.mb1"), "TP in the node");
  EXPECT_EQ(word("pp4.vpp2.fsdp4.mb1", "pp4.vpp4.fsdp4.mb1"), "fewer virtual stages");
  EXPECT_EQ(word("fsdp16.mb1.rc-full", "fsdp16.mb1"), "more memory free");
}

TEST(Recommend, AFasterLayoutStaysFirst) {
  const Job job = job_of({"llama-3.1-8b", "dgx-h100x2", "trireme", 4096, 64});
  SearchResult result;
  result.best = estimate_of(job, "tp2.pp2.fsdp4.mb1", 1.0);
  result.alternatives = {estimate_of(job, "fsdp16.mb1", 1.011)};
  EXPECT_EQ(recommend(job, result), "");
  EXPECT_EQ(short_form(result.best->plan), "tp2.pp2.fsdp4.mb1");
}

// Rows at risk of 42.8 to 45.2 s stood above one of 41.2 s that surely fits.
TEST(Recommend, WhatIsAtRiskStandsBelowWhatFits) {
  const Job job = job_of({"llama-3.1-8b", "dgx-h100x2", "trireme", 4096, 64});
  SearchResult result;
  result.best = estimate_of(job, "tp2.fsdp8.mb1", 1.0);
  result.alternatives = {estimate_of(job, "fsdp16.mb1", 1.001), estimate_of(job, "dp16.mb1", 1.2),
                         estimate_of(job, "tp4.fsdp4.mb1", 1.1)};
  for (Estimate& one : result.alternatives) {
    one.memory.fit = Fit::kFits;
  }
  result.best->memory.fit = Fit::kFits;
  result.alternatives[0].memory.fit = Fit::kAtRisk;
  recommend(job, result);
  EXPECT_EQ(short_form(result.best->plan), "tp2.fsdp8.mb1");
  EXPECT_EQ(short_form(result.alternatives[0].plan), "tp4.fsdp4.mb1");
  EXPECT_EQ(short_form(result.alternatives[1].plan), "dp16.mb1");
  EXPECT_EQ(short_form(result.alternatives[2].plan), "fsdp16.mb1");
}

// Rows were ranked with every switch on, printed without those that bring the best nothing, and the
// best's memory was of the former.
// The best with every switch had tp 1, so overlap of TP went; the layout that then was the best
// lost 435 ms by it.
TEST(SwitchList, WhatWasLeftOutForAnotherLayoutComesBack) {
  const SwitchCase c{"llama-3.1-8b", "dgx-h100x4", "megatron", 131072, 32};
  SearchOptions options;
  options.constraints = {{ConstraintAxis::kContext, Comparison::kEqual, 8}};
  const SwitchedSearch found = search_with_switches(job_of(c), options, {});
  ASSERT_TRUE(found.result.best);
  const Plan& plan = found.result.best->plan;
  for (const Switch& one : switches_of(found.job, {})) {
    if (one.changes_numerics || check_plan(found.job, plan)) {
      continue;
    }
    Job with = found.job;
    switch_on(with, one);
    Estimate then;
    Estimator(with).estimate(plan, then);
    EXPECT_TRUE(then.memory.fit > found.result.best->memory.fit ||
                then.time.step_seconds > 0.998 * found.result.best->time.step_seconds)
        << one.setting;
  }
}

TEST(SwitchList, AllThatIsAnsweredIsOfTheSwitchesThatAreNamed) {
  for (const SwitchCase& c : {SwitchCase{"llama-3.1-8b", "dgx-h100x4", "megatron", 131072, 32},
                              SwitchCase{"llama-3.1-8b", "dgx-h100x1", "fsdp2", 8192, 64}}) {
    const SwitchedSearch found = search_with_switches(job_of(c), {}, {});
    const SearchResult plain = search(found.job, {});
    ASSERT_TRUE(found.result.best && plain.best);
    EXPECT_EQ(found.result.best->plan, plain.best->plan);
    EXPECT_EQ(found.result.best->memory.reserved_high_gib, plain.best->memory.reserved_high_gib);
    ASSERT_EQ(found.result.alternatives.size(), plain.alternatives.size());
    for (std::size_t i = 0; i < plain.alternatives.size(); ++i) {
      EXPECT_EQ(found.result.alternatives[i].plan, plain.alternatives[i].plan);
      EXPECT_EQ(found.result.alternatives[i].memory.fit, plain.alternatives[i].memory.fit);
    }
    Job named = job_of(c);
    for (const SwitchGain& gain : found.switches) {
      if (gain.applied) {
        switch_on(named, gain.which);
      }
    }
    Estimate again;
    Estimator(named).estimate(found.result.best->plan, again);
    EXPECT_EQ(again.memory.reserved_high_gib, found.result.best->memory.reserved_high_gib);
    EXPECT_EQ(again.time.step_seconds, found.result.best->time.step_seconds);
  }
}

// What brought the best nothing was switched off, and with it off for every other row: asked for by
// itself, a row had TP overlap and expandable segments that the table's had not.
TEST(SwitchList, ARowHasTheSwitchesThatItsLayoutHasByItself) {
  for (const SwitchCase& c : {SwitchCase{"llama-3.1-8b", "dgx-h100x4", "megatron", 131072, 32},
                              SwitchCase{"llama-3.1-8b", "dgx-h100x2", "megatron", 8192, 64},
                              SwitchCase{"llama-3.1-70b", "dgx-h100x8", "megatron", 8192, 256},
                              SwitchCase{"llama-3.1-8b", "dgx-h100x1", "fsdp2", 8192, 64}}) {
    const Job job = job_of(c);
    const SwitchedSearch found = search_with_switches(job, {}, {});
    ASSERT_TRUE(found.result.best);
    const Estimate& best = *found.result.best;
    const Estimate first = switched_for(job, best.plan, {}).estimate;
    EXPECT_NEAR(first.time.step_seconds / best.time.step_seconds, 1, 2e-6) << c.model;
    EXPECT_EQ(first.memory.fit, best.memory.fit) << c.model;
    for (const Estimate& row : found.result.alternatives) {  // may have what the best cannot
      const Estimate alone = switched_for(job, row.plan, {}).estimate;
      EXPECT_LE(alone.time.step_seconds / row.time.step_seconds, 1 + 2e-6) << short_form(row.plan);
      EXPECT_LE(alone.memory.fit, row.memory.fit) << short_form(row.plan);
    }
  }
}

// 405B under fp8 as it was trained "does not fit", and nothing said what it was trained with.
TEST(SwitchList, TheFewestThatMakeALayoutFitAreFound) {
  Job job = job_of({"llama-3.1-405b", "dgx-h100x64", "megatron", 8192, 256});
  job.precision = topologies::Precision::kFp8;
  Plan plan = parse_short_form("tp8.pp8.vpp8.cp2.fsdp4.mb1.zero1");
  plan.micro_batches = 64;
  plan.stage_layers = StageSplits(job, {}).balanced(plan);
  ASSERT_FALSE(check_plan(job, plan));
  Estimate before;
  Estimator(job).estimate(plan, before);
  ASSERT_EQ(before.memory.fit, Fit::kNo);
  const auto then = switches_that_fit(job, plan, {});
  ASSERT_TRUE(then);
  EXPECT_NE(then->estimate.memory.fit, Fit::kNo);
  EXPECT_EQ(then->job.precision, job.precision);
  for (const SwitchGain& gain : then->switches) {  // without any of them it is less sure to fit
    EXPECT_TRUE(gain.makes_fit) << gain.which.name;
  }
  const Job small = job_of({"llama-3.1-405b", "dgx-h100x1", "megatron", 8192, 8});
  Plan one = parse_short_form("tp8.mb1");
  one.micro_batches = 8;
  EXPECT_FALSE(switches_that_fit(small, one, {}));
}

// A switch without which the layout is at risk was shown as "-36.3 ms".
TEST(SwitchList, ASwitchThatMakesTheLayoutFitSaysSo) {
  const Job job = job_of({"deepseek-v3", "hgx-h200x32", "megatron", 4096, 2048});
  const SwitchedSearch found = search_with_switches(job, {}, {});
  ASSERT_TRUE(found.result.best.has_value());
  for (const SwitchGain& gain : found.switches) {
    if (!gain.applied) {
      continue;
    }
    Job off = job;
    for (const SwitchGain& other : found.switches) {
      if (other.applied && other.which.setting != gain.which.setting) {
        switch_on(off, other.which);
      }
    }
    Estimate without;
    Estimator(off).estimate(found.result.best->plan, without);
    EXPECT_EQ(gain.fit_without, without.memory.fit) << gain.which.name;
    EXPECT_EQ(gain.makes_fit, without.memory.fit > found.result.best->memory.fit)
        << gain.which.name;
  }
}

}  // namespace
}  // namespace trireme::planner
