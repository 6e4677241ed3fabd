// The closed form held to the program of the same plan, behaviour by behaviour: `estimate` against
// `simulate --no-contention` on random plans of real models over four generations of cluster, with
// every schedule, recompute mode and sharding that the framework has, up to 24 chunks a pipeline
// rank. Only plans that fit the GPU's memory are drawn: no one asks how fast the others are.
// TRIREME_CASES sets how many plans of each behaviour, TRIREME_SEED the first seed,
// TRIREME_BEHAVIOUR one behaviour alone, TRIREME_VERBOSE=1 prints each plan.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "models/presets.h"
#include "planner/cost/estimate.h"
#include "planner/lower/lower.h"
#include "planner/plan/rules.h"
#include "planner/plan/shape.h"
#include "tests/conformance/drawn_plans.h"
#include "tests/conformance/simulated_step.h"

namespace trireme {
namespace {

using planner::Job;
using planner::Plan;
using planner::Schedule;
using tests::Drawn;

double simulated_seconds(const Drawn& drawn) {
  return tests::simulated_seconds(drawn.job, drawn.program);
}

// What is reached on 500 plans, with a little air. The aim is 2 % and 8 % everywhere: one of the
// 3,000 plans is beyond 8 %, of the kinds that docs/accuracy.md names.
struct Behaviour {
  const char* name;
  double mean, worst;
};
std::ostream& operator<<(std::ostream& out, const Behaviour& behaviour) {
  return out << behaviour.name;
}
constexpr Behaviour kBehaviours[] = {{"trireme", 0.0115, 0.07},        {"megatron", 0.0095, 0.08},
                                     {"megatron-fsdp", 0.0105, 0.085}, {"fsdp1", 0.0105, 0.095},
                                     {"fsdp2", 0.0095, 0.08},          {"deepspeed", 0.0055, 0.05}};

class Behaviours : public testing::TestWithParam<Behaviour> {};

void expect_closed_form(const Behaviour& behaviour, tests::Chunks chunks,
                        const tests::Training& train = {},
                        tests::Sequences sequences = tests::Sequences::kAny) {
  const char* only = std::getenv("TRIREME_BEHAVIOUR");
  if (only != nullptr && std::string(only) != behaviour.name) {
    GTEST_SKIP() << "TRIREME_BEHAVIOUR asks for " << only;
  }
  const std::uint64_t cases = tests::from_environment("TRIREME_CASES", 80);
  const std::uint64_t first = tests::from_environment("TRIREME_SEED", 1);
  const bool verbose = std::getenv("TRIREME_VERBOSE") != nullptr;
  double sum = 0;
  double worst = 0;
  std::uint64_t far = 0;
  std::string worst_case;
  for (std::uint64_t seed = first; seed < first + cases; ++seed) {
    const Drawn drawn = tests::draw(behaviour.name, seed, train, chunks, sequences);
    const double simulated = simulated_seconds(drawn);
    const double difference = drawn.estimate.time.step_seconds / simulated - 1;
    if (verbose) {
      const planner::TimeItems& t = drawn.estimate.time.exposed;
      fmt::print(
          "{:+6.2f}% {} sim {:.4f} s; compute {:.4f} tp {:.4f} cp {:.4f} ep {:.4f} dp {:.4f} "
          "bubble {:.4f} "
          "p2p {:.4f} opt {:.4f} other {:.4f}\n",
          100 * difference, drawn.what, simulated, t.compute, t.tensor_parallel, t.context_parallel,
          t.expert_parallel, t.data_parallel, t.pipeline_bubble, t.pipeline_p2p, t.optimizer,
          t.other);
    }
    sum += std::abs(difference);
    far += std::abs(difference) > 0.08 ? 1 : 0;
    if (std::abs(difference) > std::abs(worst)) {
      worst = difference;
      worst_case = drawn.what;
    }
  }
  const double mean = sum / static_cast<double>(cases);
  fmt::print("{}: {} plans, mean {:.2f} %, {} beyond 8 %, worst {:+.2f} % ({})\n", behaviour.name,
             cases, 100 * mean, far, 100 * worst, worst_case);
  EXPECT_LE(mean, behaviour.mean);
  EXPECT_LE(std::abs(worst), behaviour.worst) << worst_case;
}

TEST_P(Behaviours, TheClosedFormFollowsTheProgram) {
  expect_closed_form(GetParam(), tests::Chunks::kLooped);
}

// ZeRO-3 whose experts alone have several data-parallel ranks to be sharded over: what its host
// does around their units was left out, 31 % of the step.
TEST(BehavioursOfExperts, TheHostWorksAroundUnitsOfExpertsAlone) {
  Drawn drawn;
  Job& job = drawn.job;
  job.model = models::load_model("qwen3-30b-a3b");
  job.framework = planner::find_framework("deepspeed");
  job.profile = topologies::shipped_profile();
  job.sequence = 8192;
  job.cluster = topologies::load_cluster("dgx-a100-80gbx4");
  Plan& plan = drawn.plan;
  plan = planner::parse_short_form("tp8.ep2.etp1.dp4.mb1.rc-selective");
  plan.sharding = planner::Sharding::kFull;
  plan.micro_batches = 2;
  job.global_batch = plan.micro_batches * plan.data_parallel();
  ASSERT_EQ(plan.sharded * plan.context, 1);
  ASSERT_GT(planner::expert_ranks(job, plan).shards, 1);
  drawn.program = planner::lower(job, plan);
  planner::Estimator(job).estimate(plan, drawn.estimate);
  EXPECT_NEAR(drawn.estimate.time.step_seconds / simulated_seconds(drawn), 1, 0.08);
}

// Pipelines in a V alone, as reached on 500 plans each, of which three are beyond 8 %: experts
// whose gradients are reduced after the last pass, and a small model that waits for its host.
class BehavioursInV : public testing::TestWithParam<Behaviour> {};
constexpr Behaviour kBehavioursInV[] = {
    {"trireme", 0.0115, 0.085}, {"megatron", 0.0075, 0.075}, {"fsdp2", 0.0165, 0.15}};

TEST_P(BehavioursInV, TheClosedFormFollowsTheProgram) {
  expect_closed_form(GetParam(), tests::Chunks::kInV);
}

// Sequences shared by two to eight ranks, up to 128 k long: gathered before attention, and passed
// round a ring beside it. Of 1,000 plans one is beyond 8 %, in both forms: experts in an
// interleaved pipeline.
TEST(BehavioursOfSharedSequences, TheClosedFormFollowsTheProgram) {
  for (const bool gathers : {true, false}) {
    SCOPED_TRACE(gathers ? "gathered" : "ring");
    const auto choose = [gathers](tests::Random& random, Job& job) {
      job.framework.context_gather = gathers;
      job.sequence = 8192 << random.below(5);
      job.model.max_sequence = std::max(job.model.max_sequence, job.sequence);
    };
    expect_closed_form({"trireme", 0.0095, 0.105}, tests::Chunks::kLooped, choose,
                       tests::Sequences::kShared);
  }
}

// PyTorch's: keys come beside the attention over a rank's own, or round a ring; steps are merged.
// The program had the whole of an exchange among what keeps the GPU busy, and hid it behind kernels
// that wait for the host: 80 of 1,000 plans took less than their hosts need to issue them.
TEST(BehavioursOfSharedSequences, PyTorchsFollowTheirProgramsToo) {
  for (const bool gathers : {true, false}) {
    SCOPED_TRACE(gathers ? "gathered" : "ring");
    const auto choose = [gathers](tests::Random& random, Job& job) {
      job.framework.context_gather = gathers;
      job.framework.context_repeats_heads = random.below(2) == 0;
      job.sequence = 8192 << random.below(5);
      job.model.max_sequence = std::max(job.model.max_sequence, job.sequence);
    };
    expect_closed_form({"fsdp2", 0.0115, 0.09}, tests::Chunks::kLooped, choose,
                       tests::Sequences::kShared);
  }
}

// Chunks of one or two layers were counted as if they were alone on their rank: 15 % too little, of
// the next chunk's gathered unit and the last one's gradients. Programs of other frameworks had
// this project's kept tensors, logits and fp32 states: 5 to 18 % away; the micro-batch whose split
// backward runs was counted as it was kept: 50 % too little. Reductions of a token table that last
// into the next pass were left out, up to 10 %: of PyTorch's and Megatron's sharded pipelines of a
// few GiB they still are.
constexpr Behaviour kMemories[] = {{"trireme", 0.004, 0.055},      {"megatron", 0.003, 0.02},
                                   {"megatron-fsdp", 0.01, 0.085}, {"fsdp1", 0.01, 0.115},
                                   {"fsdp2", 0.008, 0.065},        {"deepspeed", 0.0045, 0.06}};

class BehavioursMemory : public testing::TestWithParam<Behaviour> {};

void expect_memory(const Behaviour& behaviour, tests::Chunks chunks) {
  const char* only = std::getenv("TRIREME_BEHAVIOUR");
  if (only != nullptr && std::string(only) != behaviour.name) {
    GTEST_SKIP() << "TRIREME_BEHAVIOUR asks for " << only;
  }
  const std::uint64_t cases = tests::from_environment("TRIREME_CASES", 40);
  const std::uint64_t first = tests::from_environment("TRIREME_SEED", 1);
  double sum = 0;
  double worst = 0;
  double compared = 0;
  std::string worst_case;
  for (std::uint64_t seed = first; seed < first + cases; ++seed) {
    const Drawn drawn = tests::draw(behaviour.name, seed, {}, chunks);
    if (const std::optional<double> difference = tests::memory_difference(drawn)) {
      if (std::getenv("TRIREME_VERBOSE") != nullptr) {
        fmt::print("{:+6.2f}% {}\n", 100 * *difference, drawn.what);
      }
      ++compared;
      sum += std::abs(*difference);
      if (std::abs(*difference) > std::abs(worst)) {
        worst = *difference;
        worst_case = drawn.what;
      }
    }
  }
  fmt::print("memory of {}: {} of {} plans, mean {:.2f} %, worst {:+.2f} % ({})\n", behaviour.name,
             compared, cases, 100 * sum / compared, 100 * worst, worst_case);
  EXPECT_GT(compared, 0.4 * static_cast<double>(cases));
  EXPECT_LE(sum / compared, behaviour.mean);
  EXPECT_LE(std::abs(worst), behaviour.worst) << worst_case;
}

TEST_P(BehavioursMemory, MemoryIsWhatTheProgramHasAlive) {
  expect_memory(GetParam(), tests::Chunks::kLooped);
}

class BehavioursMemoryInV : public testing::TestWithParam<Behaviour> {};
constexpr Behaviour kMemoriesInV[] = {
    {"trireme", 0.005, 0.04}, {"megatron", 0.005, 0.05}, {"fsdp2", 0.0075, 0.05}};

TEST_P(BehavioursMemoryInV, MemoryIsWhatTheProgramHasAlive) {
  expect_memory(GetParam(), tests::Chunks::kInV);
}

// Interleaved pipelines of one or two layers a chunk, run on two H200 of one host by this project's
// runtime (docs/gpu_measurements.md): the closed form once gave their messages 2 ms where 20 to 40
// were spent, and was 4 to 15 % too fast.
struct DeepPipeline {
  const char* model;
  std::int64_t sequence, micro_batches, micro_batch, chunks;
  double measured;  // seconds, median of seven steps
};
constexpr DeepPipeline kDeepPipelines[] = {
    {"qwen2.5-1.5b", 4096, 8, 1, 14, 0.42120},  {"gpt3-2.7b", 2048, 8, 1, 16, 0.35959},
    {"llama-3.2-3b", 2048, 8, 1, 14, 0.40780},  {"qwen2.5-3b", 2048, 8, 1, 18, 0.38660},
    {"megatron-3.6b", 2048, 8, 1, 15, 0.44566}, {"qwen3-1.7b", 1024, 8, 1, 14, 0.14520},
    {"qwen3-4b", 2048, 4, 1, 18, 0.28470},      {"llama-3.2-3b", 2048, 2, 2, 14, 0.22370}};

TEST(DeepPipelines, MessagesThatWaitAreInTheClosedForm) {
  for (const DeepPipeline& run : kDeepPipelines) {
    Drawn drawn;
    Job& job = drawn.job;
    job.model = models::load_model(run.model);
    job.framework = planner::find_framework("trireme");
    job.profile = topologies::load_profile(std::string(TRIREME_SOURCE_DIR) +
                                           "/topologies/profiles/hgx-h200.json");
    job.sequence = run.sequence;
    job.cluster = topologies::narrowed(topologies::load_cluster("hgx-h200x1"), 2);
    Plan& plan = drawn.plan;
    plan.pipeline = 2;
    plan.virtual_pipeline = run.chunks;
    plan.schedule = Schedule::kInterleaved;
    plan.micro_batch = run.micro_batch;
    plan.micro_batches = run.micro_batches;
    job.global_batch = run.micro_batch * run.micro_batches;
    drawn.program = planner::lower(job, plan);
    planner::Estimator(job).estimate(plan, drawn.estimate);
    const double estimated = drawn.estimate.time.step_seconds;
    EXPECT_NEAR(estimated / simulated_seconds(drawn), 1, 0.01) << run.model;
    EXPECT_NEAR(estimated / run.measured, 1, 0.06) << run.model;
  }
}

// All weight gradients that DualPipeV puts off at the end lie on the last rank before the first of
// them: one chunk's were counted, 27 % too little. Its first rank keeps the logits of a head whose
// backward is split.
TEST(BehavioursOfDualPipe, ItsLastRankPutsOffBothChunks) {
  const Drawn drawn = tests::draw("trireme", 456, {}, tests::Chunks::kInV);
  ASSERT_EQ(drawn.plan.schedule, Schedule::kDualPipeV);
  for (std::size_t r = 0; r < drawn.program.roles.size(); ++r) {
    const double alive = to_gib(liveness(drawn.program, drawn.program.roles[r]).peak);
    EXPECT_NEAR(drawn.estimate.memory.stages[r].items.total() / alive, 1, 0.01) << r;
  }
}

const auto kName = [](const auto& given) {
  std::string name = given.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
};
INSTANTIATE_TEST_SUITE_P(All, Behaviours, testing::ValuesIn(kBehaviours), kName);
INSTANTIATE_TEST_SUITE_P(All, BehavioursInV, testing::ValuesIn(kBehavioursInV), kName);
INSTANTIATE_TEST_SUITE_P(All, BehavioursMemoryInV, testing::ValuesIn(kMemoriesInV), kName);
INSTANTIATE_TEST_SUITE_P(All, BehavioursMemory, testing::ValuesIn(kMemories), kName);

}  // namespace
}  // namespace trireme
