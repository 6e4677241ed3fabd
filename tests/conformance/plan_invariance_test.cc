// Every layout computes what one rank alone computes: loss, every gradient, and the parameters
// after three steps, in double precision. The strongest test of lowering there is (FORMULAS F25).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/verify.h"
#include "planner/lower/lower.h"
#include "planner/plan/rules.h"
#include "runtime/cpu/threads.h"
#include "runtime/token_source.h"
#include "tests/conformance/tiny_jobs.h"

namespace trireme {
namespace {

// A time-out that ends nothing here: a wait that only it would end fails the test by the runner's.
constexpr Seconds kNever(3600);

using planner::Job;
using planner::Plan;

constexpr std::int64_t kSequence = 8;
constexpr std::int64_t kGlobalBatch = 16;

struct Case {
  Plan plan;
  std::string settings;  // framework settings, "key=value key=value"
  std::int64_t sequence = kSequence;
};

Job job_of(const models::Transformer& model, const std::string& settings = "",
           std::int64_t sequence = kSequence) {
  return tests::job_of(model, sequence, kGlobalBatch, settings);
}

// Whole tensors by name, put together from the ranks' slices.
using Tensors = std::map<std::string, std::vector<double>>;

struct Outcome {
  std::vector<double> losses;
  double gradient_norm = 0;
  Tensors gradients, parameters;  // gradients of the first step, parameters after the last
  std::map<std::uint32_t, Bytes> allocated_peak;  // by rank
};

void collect(runtime::RankExecutor& executor, State state, std::mutex& mutex, Tensors& tensors) {
  for (const ParameterSlice& slice : parameter_slices(executor.program(), executor.rank(), state)) {
    const std::vector<double> values = executor.read_slice(slice);
    const Parameter& parameter = executor.role().parameters[slice.parameter];
    const std::lock_guard<std::mutex> lock(mutex);
    std::vector<double>& whole = tensors[parameter.name];
    whole.resize(static_cast<std::size_t>(parameter.rows * parameter.columns), std::nan(""));
    for (std::int64_t i = 0; i < slice.count; ++i) {
      const std::int64_t flat = slice.flat_begin + i;
      const std::int64_t row = slice.row_begin + flat / slice.column_count;
      const std::int64_t column = slice.column_begin + flat % slice.column_count;
      whole[static_cast<std::size_t>(row * parameter.columns + column)] =
          values[static_cast<std::size_t>(i)];
    }
  }
}

Outcome run(const StepProgram& program, int steps, std::uint64_t shuffle_seed) {
  Outcome outcome;
  std::mutex mutex;
  const auto tokens = runtime::synthetic_tokens(7, program.batch.vocabulary);
  runtime::cpu::CpuOptions options;
  options.arithmetic = runtime::cpu::Arithmetic::kFp64;
  options.shuffle_seed = shuffle_seed;
  options.poison = true;
  runtime::cpu::run_on_threads(program, options, kNever, [&](runtime::cpu::ThreadRank& rank) {
    rank.executor.initialise(3);
    for (int step = 0; step < steps; ++step) {
      runtime::StepSettings settings;
      settings.learning_rate = 1e-2;
      settings.weight_decay = 0.1;
      settings.max_norm = 1.0;
      settings.step = step + 1;
      const runtime::StepResult result =
          rank.executor.step(settings, *tokens, step * kGlobalBatch, kNever);
      if (result.has_loss) {
        const std::lock_guard<std::mutex> lock(mutex);
        if (outcome.losses.size() == static_cast<std::size_t>(step)) {
          outcome.losses.push_back(result.loss);
        }
      }
      if (step == 0) {
        collect(rank.executor, State::kGradient, mutex, outcome.gradients);
        const std::lock_guard<std::mutex> lock(mutex);
        outcome.gradient_norm = result.gradient_norm;
      }
    }
    collect(rank.executor, State::kMaster, mutex, outcome.parameters);
    const std::lock_guard<std::mutex> lock(mutex);
    outcome.allocated_peak[index_of(rank.executor.rank())] = rank.backend.memory().allocated_peak;
  });
  return outcome;
}

Plan single() {
  Plan plan;
  plan.micro_batch = kGlobalBatch;
  return plan;
}

std::string join(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += line + "\n";
  }
  return text;
}

StepProgram lowered(Job job, const Plan& plan) {
  job.cluster.gpus = plan.gpus();
  const auto violation = planner::check_plan(job, plan);
  if (violation) {
    throw std::runtime_error(violation->detail);
  }
  const planner::LowerOptions options{
      .widths = {8, 8, 4}, .executable = true, .keep_gradients = true};
  return planner::lower(job, plan, options);
}

double largest(const std::vector<double>& values) {
  double result = 0;
  for (const double value : values) {
    result = std::max(result, std::abs(value));
  }
  return result;
}

// Worst difference of any entry over max(the tensor's largest, 1e-3 of the largest of all).
double worst_difference(const Tensors& actual, const Tensors& expected, std::string& where) {
  double global = 0;
  for (const auto& [name, values] : expected) {
    global = std::max(global, largest(values));
  }
  double worst = 0;
  for (const auto& [name, values] : expected) {
    const auto found = actual.find(name);
    if (found == actual.end()) {
      where = name + " is missing";
      return 1e9;
    }
    const double scale = std::max(largest(values), 1e-3 * global);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double difference = std::abs(found->second[i] - values[i]) / scale;
      if (!(difference <= worst)) {
        worst = std::isnan(difference) ? 1e9 : difference;
        where = fmt::format("{}[{}]: {} instead of {}", name, i, found->second[i], values[i]);
      }
    }
  }
  return worst;
}

void expect_same(const models::Transformer& model, const Case& layout, const Outcome& reference) {
  const Job job = job_of(model, layout.settings, layout.sequence);
  SCOPED_TRACE(fmt::format(
      "{} {} {} schedule {} recompute {} {}", model.name, planner::short_form(layout.plan),
      planner::to_string(layout.plan.sharding), planner::to_string(layout.plan.schedule),
      planner::to_string(layout.plan.recompute), layout.settings));
  StepProgram program;
  try {
    program = lowered(job, layout.plan);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
    return;
  }
  const std::vector<std::string> problems = verify(program);
  ASSERT_TRUE(problems.empty()) << join(problems);
  Outcome outcome;
  try {
    outcome = run(program, 3, 11);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
    return;
  }
  ASSERT_EQ(outcome.losses.size(), reference.losses.size());
  EXPECT_NEAR(outcome.losses[0] / reference.losses[0], 1.0, 1e-12);
  EXPECT_NEAR(outcome.gradient_norm / reference.gradient_norm, 1.0, 1e-10);
  std::string where;
  EXPECT_LE(worst_difference(outcome.gradients, reference.gradients, where), 1e-10) << where;
  EXPECT_LE(worst_difference(outcome.parameters, reference.parameters, where), 1e-8) << where;
  for (const auto& [rank, peak] : outcome.allocated_peak) {
    const RoleIndex role = role_of(program, static_cast<Rank>(rank));
    EXPECT_EQ(peak.value, liveness(program, program.roles[index_of(role)]).peak.value) << rank;
  }
}

Plan plan_of(const std::string& short_form, std::int64_t micro_batch = 1) {
  return tests::plan_of(short_form, kGlobalBatch, micro_batch);
}

using planner::Recompute;
using planner::Schedule;
using planner::Sharding;

Plan with(Plan plan, Sharding sharding, bool reshard = true, std::int64_t unit = 1) {
  plan.sharding = sharding;
  plan.reshard_after_forward = reshard;
  plan.fsdp_unit = unit;
  return plan;
}
Plan with(Plan plan, Schedule schedule, std::int64_t virtual_pipeline = 1) {
  plan.schedule = schedule;
  plan.virtual_pipeline = virtual_pipeline;
  return plan;
}
Plan with(Plan plan, Recompute recompute, std::int64_t layers = -1,
          std::uint16_t modules = planner::kCoreAttention) {
  plan.recompute = recompute;
  plan.recompute_layers = layers;
  plan.recompute_modules = modules;
  return plan;
}
Plan sequence_parallel(Plan plan) {
  plan.sequence_parallel = true;
  return plan;
}

constexpr Schedule kInV[] = {Schedule::kZeroBubbleV, Schedule::kDualPipeV};

std::vector<Case> layouts() {
  std::vector<Case> cases;
  const auto add = [&](const Plan& plan, const std::string& settings = "") {
    cases.push_back({plan, settings});
  };
  // Accumulation, recompute.
  add(plan_of("mb1", 2));
  add(with(plan_of("mb1", 4), Recompute::kFull));
  add(with(plan_of("mb1", 4), Recompute::kFull, 2));
  add(with(plan_of("mb1", 4), Recompute::kSelective));
  add(with(plan_of("mb1", 4), Recompute::kSelective, -1,
           planner::kLayerNorm | planner::kMlp | planner::kCoreAttention));
  add(with(plan_of("mb1", 4), Recompute::kSelective, -1, planner::kTorchPerOp));
  // Data parallel.
  add(plan_of("dp2", 2));
  add(plan_of("dp8"));
  add(plan_of("dp4"), "reduce_every_micro_batch=true");
  add(plan_of("dp4"), "overlap_grad_reduce=false");
  for (const Sharding sharding : {Sharding::kOptimizer, Sharding::kGradients, Sharding::kFull}) {
    add(with(plan_of("fsdp4"), sharding));
    add(with(plan_of("dp2.fsdp4"), sharding));
    add(with(plan_of("dp2.fsdp2", 2), sharding));
  }
  add(with(plan_of("fsdp4"), Sharding::kOptimizer),
      "overlap_param_gather=false overlap_grad_reduce=false");
  add(with(plan_of("fsdp2"), Sharding::kOptimizer), "reduce_every_micro_batch=true");
  for (const std::int64_t unit : {1, 2, 0}) {
    add(with(plan_of("fsdp8"), Sharding::kFull, false, unit));
    add(with(plan_of("fsdp2", 4), Sharding::kFull, true, unit));
  }
  add(with(plan_of("fsdp4"), Sharding::kFull), "prefetch_units=2");
  add(with(plan_of("fsdp4"), Sharding::kFull), "prefetch_units=0 root_unit_stays_gathered=true");
  add(with(with(plan_of("fsdp4"), Sharding::kFull), Recompute::kFull));
  // Tensor parallel.
  add(plan_of("tp2", 4));
  add(plan_of("tp4", 4));  // 50 words on 4 ranks: padding
  add(sequence_parallel(plan_of("tp2", 4)));
  add(sequence_parallel(plan_of("tp2", 4)), "regather_in_backward=false tp_backward_overlap=false");
  add(with(sequence_parallel(plan_of("tp2", 4)), Recompute::kFull));
  add(with(sequence_parallel(plan_of("tp2", 4)), Recompute::kSelective, -1,
           planner::kLayerNorm | planner::kMlp));
  add(with(plan_of("tp2.dp2"), Recompute::kFull, 1));
  add(sequence_parallel(plan_of("tp2.dp4")));
  for (const Sharding sharding : {Sharding::kOptimizer, Sharding::kGradients, Sharding::kFull}) {
    add(with(sequence_parallel(plan_of("tp2.fsdp2")), sharding));
    add(with(plan_of("tp2.dp2.fsdp2"), sharding));
  }
  // Pipeline.
  for (const Schedule schedule : {Schedule::kGpipe, Schedule::kOneForwardOneBackward,
                                  Schedule::kZeroBubbleH1, Schedule::kZeroBubbleH2}) {
    add(with(plan_of("pp2", 2), schedule));
    add(with(plan_of("pp4"), schedule));
    add(with(with(plan_of("pp4", 2), schedule), Recompute::kFull));
    add(with(sequence_parallel(plan_of("tp2.pp2")), schedule));
    add(with(with(plan_of("pp2.fsdp2"), schedule), Sharding::kFull));
    add(with(with(sequence_parallel(plan_of("tp2.pp2.fsdp2")), schedule), Sharding::kGradients));
  }
  add(with(plan_of("pp2"), Schedule::kInterleaved, 2));
  add(with(plan_of("pp2", 2), Schedule::kInterleaved, 2), "p2p_overlap_interleaved=false");
  add(with(sequence_parallel(plan_of("tp2.pp2.dp2")), Schedule::kInterleaved, 2));
  add(with(with(plan_of("pp2.fsdp4"), Schedule::kInterleaved, 2), Sharding::kFull, false));
  add(with(with(plan_of("pp2.fsdp2"), Schedule::kInterleaved, 2), Sharding::kOptimizer));
  for (const Schedule schedule : kInV) {
    add(with(plan_of("pp2", 2), schedule, 2));
    add(with(plan_of("pp2"), schedule, 2));
    add(with(with(plan_of("pp2", 2), schedule, 2), Recompute::kFull));
    add(with(with(plan_of("pp2", 2), schedule, 2), Recompute::kFull, 1));
    add(with(with(plan_of("pp2", 2), schedule, 2), Recompute::kSelective));
    add(with(plan_of("pp2.dp4"), schedule, 2));
    add(with(plan_of("tp2.pp2", 2), schedule, 2));
    add(with(sequence_parallel(plan_of("tp2.pp2.dp2", 2)), schedule, 2));
    for (const Sharding sharding : {Sharding::kOptimizer, Sharding::kGradients, Sharding::kFull}) {
      add(with(with(plan_of("pp2.fsdp2"), schedule, 2), sharding));
      add(with(with(sequence_parallel(plan_of("tp2.pp2.fsdp2")), schedule, 2), sharding, false));
    }
  }
  add(plan_of("pp4"), "blocking_p2p=true");
  add(with(plan_of("pp4.fsdp2"), Sharding::kFull, false));
  add(plan_of("pp4.dp2"));
  return cases;
}

std::vector<Case> expert_layouts() {
  std::vector<Case> cases;
  const auto add = [&](const Plan& plan, const std::string& settings = "") {
    cases.push_back({plan, settings});
  };
  add(plan_of("mb1", 2));
  add(with(plan_of("mb1", 4), Recompute::kFull));
  add(with(plan_of("mb1", 4), Recompute::kSelective, -1,
           planner::kMoe | planner::kLayerNorm | planner::kCoreAttention));
  add(with(plan_of("mb1", 4), Recompute::kSelective, -1,
           planner::kMoeActivation | planner::kSharedExperts));
  add(plan_of("dp4", 2));
  add(plan_of("ep2.dp2", 2));
  add(plan_of("ep4.dp4"), "expert_load=4");
  add(plan_of("ep8.dp8"));
  add(plan_of("ep2.dp8"), "reduce_every_micro_batch=true");
  add(with(plan_of("ep2.dp2", 4), Recompute::kFull));
  add(with(plan_of("ep2.dp2", 4), Recompute::kSelective, -1, planner::kMoe));
  for (const Sharding sharding : {Sharding::kOptimizer, Sharding::kGradients, Sharding::kFull}) {
    add(with(plan_of("fsdp2", 2), sharding));
    add(with(plan_of("ep2.fsdp2", 2), sharding));
    add(with(plan_of("ep2.fsdp4"), sharding));
    add(with(plan_of("ep4.dp2.fsdp2"), sharding));
    add(with(plan_of("ep2.dp2.fsdp4"), sharding));
    add(with(sequence_parallel(plan_of("tp2.ep2.etp1.fsdp2")), sharding));
  }
  add(with(plan_of("ep2.fsdp8"), Sharding::kFull, false, 2));
  // Experts cut over ranks.
  add(sequence_parallel(plan_of("tp2", 4)));
  add(sequence_parallel(plan_of("tp2.ep2.dp2")));
  add(sequence_parallel(plan_of("tp2.ep2.etp1")));
  add(sequence_parallel(plan_of("tp2.ep2.etp2.dp4")));
  add(plan_of("ep2.etp2.dp4"));
  add(with(sequence_parallel(plan_of("tp2.ep2.dp2")), Recompute::kFull));
  add(sequence_parallel(plan_of("tp2.ep2.dp2")), "regather_in_backward=false");
  // Pipelines.
  for (const Schedule schedule : {Schedule::kOneForwardOneBackward, Schedule::kZeroBubbleH1,
                                  Schedule::kZeroBubbleH2, Schedule::kGpipe}) {
    add(with(plan_of("pp2.ep2.dp2"), schedule));
    add(with(with(plan_of("pp2.ep2.fsdp2"), schedule), Sharding::kFull));
    add(with(sequence_parallel(plan_of("tp2.pp2.ep2.dp2")), schedule));
  }
  add(with(plan_of("pp2.ep4.dp4"), Schedule::kInterleaved, 2));
  for (const Schedule schedule : kInV) {
    add(with(plan_of("pp2.ep2.dp2"), schedule, 2));
    add(with(plan_of("pp2.ep4.dp4"), schedule, 2));
    add(with(with(plan_of("pp2.ep2.fsdp2"), schedule, 2), Sharding::kFull));
    add(with(with(plan_of("pp2.ep2.fsdp4"), schedule, 2), Sharding::kOptimizer));
    add(with(sequence_parallel(plan_of("tp2.pp2.ep2.dp2")), schedule, 2));
    add(with(sequence_parallel(plan_of("tp2.pp2.ep2.etp1.dp2")), schedule, 2));
    add(with(with(plan_of("pp2.ep2.dp2", 2), schedule, 2), Recompute::kFull));
    add(with(plan_of("cp2.pp2.ep2.dp2"), schedule, 2));
  }
  add(with(with(plan_of("pp4.ep2.fsdp2"), Recompute::kFull), Sharding::kOptimizer));
  // Other stages' ranks stand between those of one group.
  add(plan_of("pp2.ep2.dp4.order-pp-dp"));
  add(with(plan_of("pp2.ep4.fsdp2.dp2.order-fsdp-pp-dp"), Sharding::kFull));
  add(with(sequence_parallel(plan_of("tp2.pp2.ep2.fsdp2.order-tp-pp-fsdp")), Sharding::kOptimizer));
  // Sequences shared.
  add(plan_of("cp2.ep2"));
  add(with(plan_of("cp2.ep4.fsdp2"), Sharding::kFull));
  return cases;
}

std::vector<Case> context_layouts(const std::string& settings) {
  std::vector<Case> cases;
  const auto add = [&](const Plan& plan) { cases.push_back({plan, settings}); };
  add(plan_of("cp2", 4));
  add(plan_of("cp4", 2));
  add(with(plan_of("cp2", 4), Recompute::kFull));
  add(with(plan_of("cp2", 4), Recompute::kSelective));
  add(plan_of("cp2.dp2"));
  add(plan_of("cp4.dp2"));
  for (const Sharding sharding : {Sharding::kOptimizer, Sharding::kGradients, Sharding::kFull}) {
    add(with(plan_of("cp2.fsdp2"), sharding));
    add(with(plan_of("cp2.dp2.fsdp2"), sharding));
  }
  add(plan_of("tp2.cp2"));
  add(sequence_parallel(plan_of("tp2.cp2.dp2")));
  add(plan_of("cp2.pp2"));
  add(with(plan_of("cp2.pp2.dp2"), Schedule::kZeroBubbleH1));
  add(with(plan_of("cp2.pp2"), Schedule::kInterleaved, 2));
  for (const Schedule schedule : kInV) {
    add(with(plan_of("cp2.pp2"), schedule, 2));
    add(with(with(plan_of("cp2.pp2.fsdp2"), schedule, 2), Sharding::kFull));
    add(with(sequence_parallel(plan_of("tp2.cp2.pp2")), schedule, 2));
    add(with(plan_of("cp2.pp2.dp2.order-cp-pp-dp"), schedule, 2));
  }
  add(plan_of("cp2.pp2.dp2.order-cp-pp-dp"));
  add(with(plan_of("cp2.pp2.fsdp2.order-fsdp-pp-cp"), Sharding::kOptimizer));
  add(with(sequence_parallel(plan_of("tp2.cp2.pp2")), Recompute::kFull));
  return cases;
}

// One of each kind: what a layer writes depends on these and not on their products with others.
std::vector<Case> layer_layouts() {
  std::vector<Case> cases;
  const auto add = [&](const Plan& plan, const std::string& settings = "") {
    cases.push_back({plan, settings});
  };
  add(plan_of("mb1", 4));
  add(with(plan_of("mb1", 4), Recompute::kFull));
  add(with(plan_of("mb1", 4), Recompute::kSelective, -1,
           planner::kLayerNorm | planner::kMlp | planner::kCoreAttention));
  add(plan_of("tp2", 4));
  add(sequence_parallel(plan_of("tp2", 4)));
  add(with(sequence_parallel(plan_of("tp2.dp2", 2)), Recompute::kFull));
  add(sequence_parallel(plan_of("tp2", 4)), "regather_in_backward=false tp_backward_overlap=false");
  add(with(plan_of("fsdp4", 2), Sharding::kFull));
  add(with(sequence_parallel(plan_of("tp2.fsdp2", 2)), Sharding::kGradients));
  add(with(plan_of("pp2", 4), Schedule::kZeroBubbleH1));
  add(with(plan_of("pp2", 4), Schedule::kInterleaved, 2));
  add(with(sequence_parallel(plan_of("tp2.pp2", 4)), Schedule::kZeroBubbleH2));
  add(with(with(plan_of("pp2.fsdp2", 4), Schedule::kOneForwardOneBackward), Sharding::kFull));
  for (const Schedule schedule : kInV) {
    add(with(plan_of("pp2", 2), schedule, 2));
    add(with(sequence_parallel(plan_of("tp2.pp2", 4)), schedule, 2));
    add(with(with(plan_of("pp2.fsdp2", 2), schedule, 2), Sharding::kFull));
  }
  return cases;
}

// Context ranks that exchange heads, of which each has some.
std::vector<Case> exchange_layouts() {
  std::vector<Case> cases;
  const auto add = [&](const Plan& plan) { cases.push_back({plan, "context_all_to_all=true"}); };
  add(plan_of("cp2", 4));
  add(with(plan_of("cp2", 4), Recompute::kFull));
  add(with(plan_of("cp2", 4), Recompute::kSelective));
  add(plan_of("cp2.dp2", 2));
  add(with(plan_of("cp2.fsdp2", 2), Sharding::kFull));
  add(plan_of("cp2.pp2", 4));
  add(with(plan_of("cp2.pp2", 4), Schedule::kZeroBubbleH1));
  for (const Schedule schedule : kInV) {
    add(with(plan_of("cp2.pp2", 2), schedule, 2));
  }
  return cases;
}

class PlanInvariance : public testing::TestWithParam<models::Transformer> {};

TEST_P(PlanInvariance, EveryLayoutComputesWhatOneRankComputes) {
  const models::Transformer model = GetParam();
  const Outcome reference = run(lowered(job_of(model), single()), 3, 0);
  const std::vector<Case> cases = layouts();
  EXPECT_GE(cases.size(), 60U);
  for (const Case& layout : cases) {
    if (model.kv_heads % layout.plan.tensor != 0) {
      continue;  // a key-value head on several ranks can be simulated, not executed
    }
    expect_same(model, layout, reference);
  }
}

TEST_P(PlanInvariance, RanksThatShareSequencesComputeWhatOneRankComputes) {
  models::Transformer model = GetParam();
  model.sliding_window = model.qk_norm ? 3 : 0;
  const Outcome reference = run(lowered(job_of(model), single()), 3, 0);
  for (const Case& layout : context_layouts("")) {
    expect_same(model, layout, reference);
  }
}

constexpr const char* kRing = "context_gather=false";

TEST_P(PlanInvariance, RanksInARingComputeWhatOneRankComputes) {
  const models::Transformer model = GetParam();
  const Outcome reference = run(lowered(job_of(model), single()), 3, 0);
  for (const Case& layout : context_layouts(kRing)) {
    expect_same(model, layout, reference);
  }
}

TEST_P(PlanInvariance, RanksThatExchangeHeadsComputeWhatOneRankComputes) {
  models::Transformer model = GetParam();
  model.sliding_window = model.qk_norm ? 3 : 0;
  const Outcome reference = run(lowered(job_of(model), single()), 3, 0);
  for (const Case& layout : exchange_layouts()) {
    expect_same(model, layout, reference);
  }
}

void expect_same_in_all(const models::Transformer& model, const std::vector<Case>& cases) {
  const Outcome reference = run(lowered(job_of(model), single()), 3, 0);
  for (const Case& layout : cases) {
    expect_same(model, layout, reference);
  }
}

// Eight chunks over four ranks, of as many layers; ZB-V also of fewer micro-batches than fill it.
TEST(PlacementInvariance, ChunksInAVComputeWhatOneRankComputes) {
  std::vector<Case> cases;
  for (const Schedule schedule : kInV) {
    for (const char* form : {"pp4", "pp4.dp2", "pp4.fsdp2"}) {
      cases.push_back({with(plan_of(form), schedule, 2), ""});
    }
    cases.push_back({with(sequence_parallel(plan_of("tp2.pp4")), schedule, 2), ""});
    cases.push_back({with(with(plan_of("pp4", 2), schedule, 2), Recompute::kFull), ""});
    cases.push_back({with(with(plan_of("pp4.fsdp2"), schedule, 2), Sharding::kFull), ""});
    cases.push_back({with(plan_of("cp2.pp4"), schedule, 2), ""});
  }
  for (const std::int64_t micro_batch : {4, 8, 16}) {
    cases.push_back({with(plan_of("pp4", micro_batch), Schedule::kZeroBubbleV, 2), ""});
  }
  models::Transformer tied = tests::qwen_shape();
  tied.layers = 8;
  for (const models::Transformer& model : {tests::llama_shape(8), tied}) {
    expect_same_in_all(model, cases);
  }
}

TEST(PlacementInvariance, ExpertsInAVComputeWhatOneRankComputes) {
  std::vector<Case> cases;
  for (const Schedule schedule : kInV) {
    cases.push_back({with(plan_of("pp4.ep2.dp2"), schedule, 2), ""});
    cases.push_back({with(with(plan_of("pp4.ep2.fsdp2"), schedule, 2), Sharding::kFull), ""});
    cases.push_back({with(sequence_parallel(plan_of("tp2.pp4.ep2.etp1")), schedule, 2), ""});
  }
  for (models::Transformer model : {tests::expert_shape(true), tests::latent_shape(true)}) {
    model.layers = 8;
    model.moe_layers.resize(8, true);
    expect_same_in_all(model, cases);
  }
}

TEST(FunctionInvariance, NumbersOfTheFunctionAreTheSameInEveryLayout) {
  expect_same_in_all(tests::scaled_shape(), layer_layouts());
  expect_same_in_all(tests::scaled_shape(), {{plan_of("cp2", 4), "context_all_to_all=true"}});
}

// Up to eight ranks, each with two chunks of one token or more.
TEST(RingInvariance, RingsOfEveryLength) {
  constexpr std::int64_t kLong = 16;
  for (const models::Transformer& model : {tests::llama_shape(), tests::gpt_shape()}) {
    const Outcome reference = run(lowered(job_of(model, "", kLong), single()), 3, 0);
    std::vector<Case> cases;
    for (const char* form : {"cp2", "cp4", "cp8", "cp8.dp2", "cp4.pp2", "cp4.fsdp2.dp2"}) {
      cases.push_back({plan_of(form), kRing, kLong});
    }
    cases.push_back({with(plan_of("cp8.fsdp2", 2), Sharding::kFull), kRing, kLong});
    cases.push_back(
        {with(sequence_parallel(plan_of("tp2.cp4", 4)), Recompute::kFull), kRing, kLong});
    for (const Case& layout : cases) {
      expect_same(model, layout, reference);
    }
  }
}

TEST(RingInvariance, LatentAttentionWhoseValuesAreNarrower) {
  std::vector<Case> cases = context_layouts(kRing);
  expect_same_in_all(tests::latent_shape(false), cases);
}

TEST(RingInvariance, WithExperts) {
  std::vector<Case> cases = {{plan_of("cp2.ep2"), kRing},
                             {with(plan_of("cp2.ep4.fsdp2"), Sharding::kFull), kRing},
                             {sequence_parallel(plan_of("tp2.cp2.ep2.dp2")), kRing}};
  for (const Schedule schedule : kInV) {
    cases.push_back({with(plan_of("cp2.pp2.ep2.dp2"), schedule, 2), kRing});
  }
  for (const models::Transformer& model : {tests::expert_shape(true), tests::latent_shape(true)}) {
    expect_same_in_all(model, cases);
  }
}

// What has no kernel is refused by its name.
TEST(RingInvariance, RefusesWhatItDoesNotCompute) {
  const auto refusal = [](const models::Transformer& model) -> std::string {
    try {
      lowered(job_of(model, kRing), plan_of("cp2"));
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  models::Transformer model = tests::llama_shape();
  EXPECT_EQ(refusal(model), "");
  model.sliding_window = 3;
  EXPECT_NE(refusal(model).find("a sliding window under context parallelism that passes keys"),
            std::string::npos)
      << refusal(model);
  model = tests::llama_shape();
  model.position = models::Position::kAlibi;
  EXPECT_NE(refusal(model).find("ALiBi"), std::string::npos) << refusal(model);
  model = tests::llama_shape();
  model.function.attention_cap = 30;
  EXPECT_NE(refusal(model).find("capped scores"), std::string::npos) << refusal(model);
}

TEST(FunctionInvariance, ParallelBlocks) {
  for (const bool one_norm : {false, true}) {
    expect_same_in_all(tests::parallel_shape(one_norm), layer_layouts());
  }
}

TEST(FunctionInvariance, NormsBehindTheHalves) {
  expect_same_in_all(tests::post_norm_shape(), layer_layouts());
}

TEST(LatentInvariance, EveryLayoutComputesWhatOneRankComputes) {
  expect_same_in_all(tests::latent_shape(false), layer_layouts());
}

TEST(LatentInvariance, RanksThatExchangeHeadsComputeWhatOneRankComputes) {
  expect_same_in_all(tests::latent_shape(false), exchange_layouts());
}

TEST(LatentInvariance, WithExperts) {
  std::vector<Case> cases = {
      {plan_of("mb1", 4), ""},
      {with(plan_of("ep2.dp2", 4), Recompute::kFull), ""},
      {with(plan_of("ep4.fsdp4", 2), Sharding::kFull), ""},
      {sequence_parallel(plan_of("tp2.ep2.dp2", 2)), ""},
      {with(sequence_parallel(plan_of("tp2.ep2.etp1.fsdp2", 2)), Sharding::kFull), ""},
      {with(plan_of("pp2.ep2.dp2", 2), Schedule::kZeroBubbleH1), ""},
      {with(sequence_parallel(plan_of("tp2.pp2.ep2.dp2", 2)), Schedule::kInterleaved, 2), ""},
      {with(plan_of("cp2.ep2.fsdp2", 2), Sharding::kFull), "context_all_to_all=true"}};
  for (const Schedule schedule : kInV) {
    cases.push_back({with(plan_of("pp2.ep2.dp2", 2), schedule, 2), ""});
    cases.push_back({with(sequence_parallel(plan_of("tp2.pp2.ep2.dp2", 2)), schedule, 2), ""});
    cases.push_back({with(plan_of("cp2.pp2.ep2.dp2", 2), schedule, 2), "context_all_to_all=true"});
  }
  expect_same_in_all(tests::latent_shape(true), cases);
}

TEST(ExpertInvariance, EveryLayoutComputesWhatOneRankComputes) {
  for (const bool sigmoid : {false, true}) {
    const models::Transformer model = tests::expert_shape(sigmoid);
    const Outcome reference = run(lowered(job_of(model), single()), 3, 0);
    for (const Case& layout : expert_layouts()) {
      expect_same(model, layout, reference);
    }
  }
}

TEST(ExpertInvariance, MoreRowsThanThereIsRoomForEndTheRun) {
  const Job job = job_of(tests::expert_shape(false), "expert_load=1");
  try {
    run(lowered(job, plan_of("ep8.dp8")), 1, 0);
    FAIL() << "no expert had more than its share";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("give a larger expert_load"), std::string::npos)
        << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, PlanInvariance,
                         testing::Values(tests::llama_shape(), tests::gpt_shape(),
                                         tests::qwen_shape()),
                         [](const testing::TestParamInfo<models::Transformer>& shape) {
                           std::string name = shape.param.name;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace trireme
