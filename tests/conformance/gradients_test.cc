// Layouts agree with each other also where all of them are wrong (plan_invariance_test): the
// gradients of one rank are the slopes of its loss, by moving elements of every tensor.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "planner/lower/lower.h"
#include "runtime/cpu/threads.h"
#include "runtime/token_source.h"
#include "tests/conformance/filled_adapters.h"
#include "tests/conformance/tiny_jobs.h"

namespace trireme {
namespace {

constexpr Seconds kNever(3600);
constexpr std::int64_t kSequences = 4;
constexpr double kMove = 1e-5;

// Two layers whose every part matters to the loss.
models::Transformer shortened(models::Transformer model) {
  model.layers = 2;
  model.function.init_std = 0.3;
  if (model.moe) {
    model.moe_layers = {false, true};
  }
  if (!model.sliding_layers.empty()) {
    model.sliding_layers = {true, false};
  }
  return model;
}

class OneRank {
 public:
  explicit OneRank(runtime::RankExecutor& executor) : executor_(executor) {}

  // Elements of the trained tensors as this rank holds them, one expert's rows by themselves.
  [[nodiscard]] std::vector<ParameterSlice> slices(State state) const {
    std::vector<ParameterSlice> all = parameter_slices(executor_.program(), Rank(0), state);
    const Program& role = executor_.role();
    std::erase_if(all, [&](const ParameterSlice& slice) {
      const ParameterUnit& unit = role.units[role.parameters[slice.parameter].unit];
      return unit.states[static_cast<std::size_t>(State::kMaster)].operand.count == 0;
    });
    return all;
  }
  std::vector<double> gradient(const ParameterSlice& slice) { return executor_.read_slice(slice); }

  // The first step's loss when element `i` of slice `index` is moved by `by`.
  double loss(std::size_t index, std::size_t i, double by) {
    executor_.initialise(3);
    tests::fill_adapters(executor_);
    const double value = executor_.read_slice(slices(State::kMaster)[index])[i] + by;
    for (const State state : {State::kWeight, State::kMaster}) {
      const ParameterSlice slice = slices(state)[index];
      std::vector<double> values = executor_.read_slice(slice);
      values[i] = value;
      executor_.write_slice(slice, values);
    }
    return first_step();
  }
  double first_step() { return executor_.step({.step = 1}, *tokens_, 0, kNever).loss; }

 private:
  runtime::RankExecutor& executor_;
  std::unique_ptr<runtime::TokenSource> tokens_ =
      runtime::synthetic_tokens(7, executor_.program().batch.vocabulary);
};

std::size_t place_of_largest(const std::vector<double>& values) {
  const auto largest = std::max_element(
      values.begin(), values.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
  return static_cast<std::size_t>(largest - values.begin());
}

void expect_slopes(OneRank& one, const Program& role) {
  one.loss(0, 0, 0);
  std::vector<std::vector<double>> gradients;
  double largest = 0;
  for (const ParameterSlice& slice : one.slices(State::kGradient)) {
    gradients.push_back(one.gradient(slice));
    largest = std::max(largest, std::abs(gradients.back()[place_of_largest(gradients.back())]));
  }
  ASSERT_GT(largest, 0);
  const std::vector<ParameterSlice> slices = one.slices(State::kMaster);
  ASSERT_EQ(slices.size(), gradients.size());
  for (std::size_t index = 0; index < slices.size(); ++index) {
    const std::vector<double>& gradient = gradients[index];
    for (const std::size_t i : {place_of_largest(gradient), gradient.size() / 2}) {
      const double slope = (one.loss(index, i, kMove) - one.loss(index, i, -kMove)) / (2 * kMove);
      EXPECT_NEAR(slope, gradient[i], 1e-7 * largest + 1e-9)
          << role.parameters[slices[index].parameter].name << " " << i;
    }
  }
}

void expect_slopes_of(const planner::Job& job) {
  SCOPED_TRACE(job.model.name);
  const StepProgram program =
      planner::lower(job, tests::plan_of("mb1", kSequences, kSequences),
                     {.widths = {8, 8, 4}, .executable = true, .keep_gradients = true});
  runtime::cpu::CpuOptions options;
  options.arithmetic = runtime::cpu::Arithmetic::kFp64;
  runtime::cpu::run_on_threads(program, options, kNever, [&](runtime::cpu::ThreadRank& rank) {
    OneRank one(rank.executor);
    expect_slopes(one, program.roles[0]);
  });
}

TEST(Gradients, AreTheSlopesOfTheLoss) {
  for (const models::Transformer& full :
       {tests::llama_shape(), tests::gpt_shape(), tests::qwen_shape(), tests::expert_shape(false),
        tests::expert_shape(true), tests::scaled_shape(), tests::parallel_shape(false),
        tests::parallel_shape(true), tests::post_norm_shape(), tests::latent_shape(false),
        tests::latent_shape(true)}) {
    expect_slopes_of(tests::job_of(shortened(full), 8, kSequences));
  }
}

TEST(Gradients, OfAdaptersAndAboveFrozenLayersAreTheSlopesOfTheLoss) {
  for (const models::Transformer& full :
       {tests::llama_shape(), tests::gpt_shape(), tests::qwen_shape(), tests::scaled_shape(),
        tests::parallel_shape(false), tests::parallel_shape(true), tests::post_norm_shape()}) {
    planner::Job job = tests::job_of(shortened(full), 8, kSequences);
    job.training.rank = 3;
    expect_slopes_of(job);
    job.training = {};
    job.training.frozen_layers = 1;
    expect_slopes_of(job);
  }
  planner::Job experts = tests::job_of(shortened(tests::expert_shape(true)), 8, kSequences);
  experts.training.frozen_layers = 1;
  expect_slopes_of(experts);
}

}  // namespace
}  // namespace trireme
