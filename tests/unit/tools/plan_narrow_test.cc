// `plan --precision fp8` of this project's framework knows what `run` refuses: one rule for both.
#include <string>

#include "core/error.h"
#include "models/presets.h"
#include "planner/lower/lower.h"
#include "planner/search/space.h"
#include "tests/unit/tools/planned.h"
#include "tools/launchable.h"
#include "topologies/cluster.h"
#include "topologies/profile.h"

namespace trireme::tools {
namespace {

planner::Job narrow_job(std::int64_t ffn, std::int64_t sequence) {
  planner::Job job;
  job.model = models::load_model("llama-3.2-1b");
  job.model.layers = 2;
  job.model.ffn = ffn;
  job.cluster = topologies::load_cluster("dgx-h100x1");
  job.framework = planner::find_framework("trireme");
  job.profile = topologies::shipped_profile();
  job.precision = topologies::Precision::kFp8;
  job.sequence = sequence;
  job.global_batch = 16;
  return job;
}

std::string refusal_of_run(const planner::Job& job, const planner::Plan& plan) {
  try {
    static_cast<void>(planner::lower(job, plan, {.widths = {}, .executable = true}));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Plans were named whose run said "fp8 multiplies in multiples of 16": of 8 tokens, or of an MLP
// that tensor ranks cut in odd parts.
TEST(PlanInEightBits, NamesTheLayoutsThatRunTakes) {
  for (const auto& [ffn, sequence] : {std::pair{8192, 2048}, {16 * 301, 2048}, {8192, 8}}) {
    const planner::Job job = narrow_job(ffn, sequence);
    const planner::Acceptance accepts = what_starts(job);
    planner::Space all;
    enumerate(job, {}, {}, all);
    std::size_t taken = 0;
    std::size_t refused = 0;
    for (const planner::SpaceNode& node : all.nodes) {
      if (node.plan.micro_batches > 8) {
        continue;  // long programs say nothing more
      }
      const planner::Plan plan =
          with_sharding(node.plan, all.degrees[node.degrees].shardings.front());
      const std::string says = refusal_of_run(job, plan);
      EXPECT_EQ(accepts.takes(plan), says.empty()) << planner::short_form(plan) << " " << says;
      EXPECT_NE(says.find(accepts.takes(plan) ? "" : accepts.refusal(plan)), std::string::npos);
      ++(says.empty() ? taken : refused);
    }
    EXPECT_GT(taken, 0U) << ffn << " " << sequence;
    EXPECT_EQ(refused > 0, ffn != 8192 || sequence == 8) << ffn << " " << sequence;
  }
}

TEST(PlanInEightBits, SaysWhatNoLayoutMendsAndPredictsItStill) {
  const Exported plan = run_words(
      "plan --model gpt-oss-20b --cluster dgx-h100x1 --framework trireme --precision fp8 --seq "
      "2048 --global-batch 16");
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_NE(plan.out.find("`run` would refuse it, and every other: "), std::string::npos)
      << plan.out;
  EXPECT_NE(plan.out.find("under fp8 can be predicted, not executed"), std::string::npos);
}

TEST(PlanInEightBits, ALayoutThatRunRefusesIsNoneOfThePlans) {
  const Exported plan = run_words(
      "plan --model llama-3.2-1b --cluster dgx-h100x1 --framework trireme --precision fp8 --seq 8 "
      "--global-batch 8 --dp 8");
  EXPECT_EQ(plan.code, 1) << plan.out;
  EXPECT_NE(plan.out.find("8 tokens of a micro-batch on a rank are none"), std::string::npos)
      << plan.out;
}

}  // namespace
}  // namespace trireme::tools
