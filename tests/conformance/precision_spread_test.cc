// FORMULAS F26: how far each layout's gradients in bfloat16 lie from double precision. Printed, and
// held to the size that eight bits of mantissa allow.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/conformance/training.h"

namespace trireme::conformance {
namespace {

using planner::Plan;

Plan plan_of(const std::string& form, planner::Sharding sharding, bool sequence_parallel = false) {
  Plan plan = planner::parse_short_form(form);
  plan.sharding = sharding;
  plan.sequence_parallel = sequence_parallel;
  plan.micro_batches = 8 / (plan.data_parallel() * plan.micro_batch);
  return plan;
}

TEST(PrecisionSpread, GradientsInBf16AgainstDouble) {
  using planner::Sharding;
  const std::vector<Plan> plans = {
      plan_of("mb8", Sharding::kNone),
      plan_of("mb1", Sharding::kNone),
      plan_of("dp8.mb1", Sharding::kNone),
      plan_of("fsdp2.mb1", Sharding::kFull),
      plan_of("fsdp8.mb1", Sharding::kFull),
      plan_of("fsdp4.mb1", Sharding::kOptimizer),
      plan_of("tp2.mb8", Sharding::kNone),
      plan_of("tp4.mb8", Sharding::kNone),
      plan_of("tp4.mb8", Sharding::kNone, true),
      plan_of("pp2.mb1", Sharding::kNone),
      plan_of("pp8.mb1", Sharding::kNone),
      plan_of("tp2.pp2.fsdp2.mb1", Sharding::kFull, true),
  };
  for (const char* kind : {"gpt", "llama"}) {
    const planner::Job job = small_job(small_model(kind), "trireme");
    const Outcome exact =
        train(job, plans.front(), 1,
              {.arithmetic = runtime::cpu::Arithmetic::kFp64, .shuffle_seed = 0, .poison = true});
    fmt::print("{:<6} {:<24} {:>16} {:>14}\n", kind, "layout", "rms difference", "loss error");
    for (const Plan& plan : plans) {
      const Outcome rounded =
          train(job, plan, 1,
                {.arithmetic = runtime::cpu::Arithmetic::kBf16, .shuffle_seed = 0, .poison = true});
      const double rms = spread(rounded.gradients, exact.gradients);
      const double loss = std::abs(rounded.losses.at(0) / exact.losses.at(0) - 1);
      fmt::print("{:<6} {:<24} {:>15.3f}% {:>13.5f}%\n", kind,
                 planner::short_form(plan) + (plan.sequence_parallel ? " sp" : ""), 100 * rms,
                 100 * loss);
      // One rounding is 2^-9 = 0.2 %; a chain of some hundred of them stays within a few per cent.
      EXPECT_GT(rms, 5e-4);
      EXPECT_LT(rms, 0.05);
      EXPECT_LT(loss, 2e-3);
    }
  }
}

}  // namespace
}  // namespace trireme::conformance
