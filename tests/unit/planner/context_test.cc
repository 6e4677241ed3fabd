// Context parallelism of PyTorch's own: one gather of keys beside a rank's own attention, steps
// merged in fp32.
#include <gtest/gtest.h>

#include "planner/cost/time.h"
#include "planner/cost/torch_context.h"
#include "planner/plan/framework_versions.h"
#include "tests/unit/planner/small_job.h"

namespace trireme::planner {
namespace {

// Two ranks, 100 elements of output, 200 of keys and values. Forward: both outputs to fp32 or back
// (2 * 6), one more to fp32 (6) and merged (32); keys joined for one exchange (4). Backward: sums
// of the queries' gradients cleared, added to twice, cast (4 + 20 + 6); of the keys' cleared, added
// to, added to one half and copied, keys joined, gradients joined twice, cast (4 + 10 + 13 + 4 + 16
// + 6).
TEST(TorchContext, StepsAreMergedInFp32) {
  const TorchContext two{2, 100, 200};
  EXPECT_EQ(torch_context_traffic(two, topologies::Pass::kForward).value, 100 * 50 + 200 * 4);
  EXPECT_EQ(torch_context_traffic(two, topologies::Pass::kBackward).value, 100 * 30 + 200 * 53);
}

// torchtitan repeated keys to the queries' heads until 0.2.2; Transformer Engine's layers under
// FSDP2 keep their ring.
TEST(TorchContext, KeysComeByOneGatherWherePyTorchRunsIt) {
  const auto framework = [](const char* spec) { return find_framework(spec, RecipeCase{}); };
  for (const char* spec : {"fsdp2", "accelerate", "torchtitan", "torchtitan@2024-12"}) {
    EXPECT_TRUE(framework(spec).context_gather && has_torch_context(framework(spec))) << spec;
  }
  EXPECT_TRUE(framework("torchtitan@2024-12").context_repeats_heads &&
              framework("torchtitan@0.2.1").context_repeats_heads);
  EXPECT_FALSE(framework("torchtitan").context_repeats_heads ||
               framework("torchtitan@0.2.2").context_repeats_heads);
  EXPECT_FALSE(framework("nemo-automodel").context_gather ||
               has_torch_context(framework("nemo-automodel")));
}

// Eight ranks of torchtitan's Llama 3.1 8B over 256 k tokens took a fifth longer than a ring whose
// steps cost nothing.
TEST(TorchContext, MergesAndRepeatedHeadsTakeTime) {
  Job job = small_job("llama-3.1-8b", "dgx-h100x1", "torchtitan@2024-12");
  job.sequence = job.model.max_sequence = 65536;
  job.global_batch = 1;
  Plan plan;
  plan.context = 8;
  const auto compute = [&] {
    TimeEstimate estimate;
    TimeModel(job).estimate(plan, estimate);
    return estimate.exposed.compute;
  };
  const double repeated = compute();
  job.framework.context_repeats_heads = false;
  const double shared = compute();
  plan.context = 1;  // the same tokens a rank and eighth of the scores
  job.sequence /= 8;
  EXPECT_GT(repeated, shared * 1.005);
  EXPECT_GT(shared, compute());
}

}  // namespace
}  // namespace trireme::planner
