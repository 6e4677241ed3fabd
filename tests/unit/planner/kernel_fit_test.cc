// The runtime's own kernels: their fixed costs and rates are found again, go through a profile, and
// time the same passes in the closed form and on the longest path.
#include "planner/calibrate/kernel_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "core/error.h"
#include "models/presets.h"
#include "planner/calibrate/profile_fit.h"
#include "planner/cost/time.h"
#include "planner/lower/lower.h"
#include "planner/walk/step_times.h"
#include "planner/walk/walk.h"
#include "topologies/gpu_fit.h"

namespace trireme::planner {
namespace {

const std::string kGpu = "H200-SXM-141GB";

KernelSample sample(const std::string& kernel, std::int64_t rows, double seconds) {
  return {kernel, rows, 2048, Bytes(rows * 2048 * 8), {Seconds(seconds), 0.01}};
}

std::vector<KernelSample> line(const std::string& kernel, double fixed, double rate) {
  std::vector<KernelSample> samples;
  for (const std::int64_t rows : {512, 1024, 4096, 16384}) {
    samples.push_back(sample(kernel, rows, fixed + static_cast<double>(rows) * 2048 * 8 / rate));
  }
  return samples;
}

TEST(KernelFit, FindsFixedCostAndRateBesideAnOutlier) {
  auto samples = line("layer_norm_backward", 2e-5, 2e12);
  samples.push_back(sample("layer_norm_backward", 8192, 1e-3));
  const auto other = line("add", 3e-6, 4e12);
  samples.insert(samples.end(), other.begin(), other.end());
  const auto fits = fit_kernels(samples);
  ASSERT_EQ(fits.size(), 2U);
  EXPECT_NEAR(fits.at("layer_norm_backward").fixed.value, 2e-5, 2e-6);
  EXPECT_NEAR(fits.at("layer_norm_backward").rate.value, 2e12, 2e11);
  EXPECT_NEAR(fits.at("add").fixed.value, 3e-6, 1e-9);
  EXPECT_NEAR(fits.at("add").rate.value, 4e12, 1e9);
}

TEST(KernelFit, OneSizeOrATimeThatDoesNotGrowIsNoFit) {
  EXPECT_TRUE(fit_kernels({sample("add", 1024, 1e-5), sample("add", 1024, 1.1e-5)}).empty());
  EXPECT_TRUE(fit_kernels({sample("cast", 1024, 2e-5), sample("cast", 4096, 1e-5)}).empty());
  EXPECT_TRUE(fit_kernels({}).empty());
}

Microbenchmarks points_of(const std::vector<KernelSample>& kernels) {
  Microbenchmarks points;
  points.machine.gpu = "NVIDIA H200";
  points.machine.gpus = 4;
  points.machine.multiprocessors = 132;
  points.kernels = kernels;
  return points;
}

TEST(KernelFit, AProfileKeepsThemAndWithoutThemReadsAsBefore) {
  ProfileFitSettings settings;
  settings.cluster = topologies::load_cluster("hgx-h200x1");
  settings.source = "made up";
  const ProfileFit fit = fit_profile(points_of(line("swiglu_forward", 2e-6, 3e12)), settings);
  ASSERT_EQ(fit.lines.size(), 1U);
  EXPECT_EQ(fit.lines[0].what, "own kernels");
  EXPECT_LT(fit.lines[0].residual, 1e-6);
  const std::string text = topologies::profile_text(fit.profile);
  const topologies::Profile again = topologies::parse_profile(text, "again");
  EXPECT_EQ(topologies::profile_text(again), text);
  EXPECT_NEAR(again.gpus.at(kGpu).kernels.at("swiglu_forward").rate.value, 3e12, 1e9);
  ASSERT_TRUE(again.points);
  EXPECT_EQ(again.points->kernels.size(), 4U);

  topologies::Profile old = fit.profile;
  old.gpus.at(kGpu).kernels.clear();
  old.points.reset();
  const topologies::Profile read = topologies::parse_profile(topologies::profile_text(old), "old");
  EXPECT_TRUE(read.gpus.at(kGpu).kernels.empty());

  std::string wrong = text;
  wrong.replace(wrong.find("swiglu_forward"), 14, "swiglu_sideway");
  EXPECT_THROW(topologies::parse_profile(wrong, "wrong"), Error);
}

TEST(KernelFit, AnotherCardScalesRatesWithinItsArchitectureAlone) {
  ProfileFitSettings settings;
  settings.cluster = topologies::load_cluster("hgx-h200x1");
  settings.source = "made up";
  const topologies::Profile profile =
      fit_profile(points_of(line("add", 2e-6, 3e12)), settings).profile;
  const auto kernels = [&](const std::string& cluster) {
    return topologies::fit_for(topologies::load_cluster(cluster).gpu, profile).kernels;
  };
  const auto h100 = kernels("dgx-h100x1");
  ASSERT_EQ(h100.size(), 1U);
  EXPECT_NEAR(h100.at("add").rate.value, 3e12 * 3350 / 4800, 3e10);
  EXPECT_EQ(h100.at("add").fixed.value, profile.gpus.at(kGpu).kernels.at("add").fixed.value);
  EXPECT_TRUE(kernels("dgx-a100-80gbx1").empty());
}

topologies::Profile without_kernels() {
  topologies::Profile profile = topologies::shipped_profile();
  // The walk knows no slow-down of compute beside communication.
  profile.frameworks["trireme"] = {{"overlap_slowdown", 0.0}, {"memory_traffic", 1.36}};
  return profile;
}

// Slow kernels with high fixed costs, so that a pass that one of both ways leaves out shows. Of
// states, of which a step makes few passes, the closed form counts the bytes.
topologies::Profile slow_kernels() {
  topologies::Profile profile = without_kernels();
  for (const char* name : {"cast", "squared_norm", "adamw", "adamw_cast"}) {
    profile.gpus.at(kGpu).kernels[name] = {Seconds(0), BytesPerSecond(1e12)};
  }
  for (const char* name :
       {"rms_norm_forward", "rms_norm_backward", "layer_norm_forward", "layer_norm_backward",
        "rotary_forward", "rotary_backward", "swiglu_forward", "swiglu_backward", "gelu_forward",
        "gelu_backward", "bias_forward", "bias_backward", "add", "logit_statistics",
        "cross_entropy_backward", "embedding_forward", "embedding_backward", "head_norm_forward",
        "head_norm_backward"}) {
    profile.gpus.at(kGpu).kernels[name] = {Seconds(3e-5), BytesPerSecond(1e12)};
  }
  return profile;
}

Job job_of(const std::string& model, const topologies::Profile& profile) {
  Job job;
  job.model = models::load_model(model);
  job.cluster = topologies::narrowed(topologies::load_cluster("hgx-h200x1"), 4);
  job.framework = find_framework("trireme");
  job.profile = profile;
  job.sequence = 2048;
  job.global_batch = 8;
  return job;
}

double estimated(const Job& job, const Plan& plan) {
  TimeEstimate estimate;
  TimeModel(job).estimate(plan, estimate);
  return estimate.step_seconds;
}

double walked(const Job& job, const Plan& plan) {
  const StepProgram program = lower(job, plan);
  return to_seconds(
             walk(program, time_ops(job, program), {.keep_timings = false}).step_times.front())
      .value;
}

TEST(OwnKernels, ClosedFormAndLongestPathTakeThemAlike) {
  for (const std::string model : {"gpt3-1.3b", "llama-3.2-1b", "qwen3-8b"}) {
    for (const bool sharded : {false, true}) {
      Plan plan;
      plan.tensor = 2;
      plan.sequence_parallel = true;
      (sharded ? plan.sharded : plan.replicas) = 2;
      plan.sharding = sharded ? Sharding::kFull : Sharding::kNone;
      plan.micro_batches = 4;
      const Job before = job_of(model, without_kernels());
      const Job after = job_of(model, slow_kernels());
      EXPECT_NEAR(estimated(after, plan) / walked(after, plan), 1, 0.03) << model << sharded;
      const double added = walked(after, plan) - walked(before, plan);
      EXPECT_GT(added / walked(before, plan), 0.2) << model << sharded;
      EXPECT_NEAR((estimated(after, plan) - estimated(before, plan)) / added, 1, 0.1)
          << model << sharded;
    }
  }
}

TEST(OwnKernels, AnOpTakesItsKernelsFixedCostAndRateWhateverTheFittedTraffic) {
  const auto norm_gradient = [](double traffic) {
    topologies::Profile profile = slow_kernels();
    profile.frameworks["trireme"]["memory_traffic"] = traffic;
    const Job job = job_of("gpt3-1.3b", profile);
    Plan plan;
    plan.tensor = 4;
    plan.micro_batches = 8;
    const StepProgram program = lower(job, plan);
    const StepTimes times = time_ops(job, program);
    const Program& role = program.roles.front();
    for (std::size_t i = 0; i < role.ops.size(); ++i) {
      if (role.names[role.ops[i].name] == "mlp_norm_gradient") {
        return to_seconds(times.roles.front()[i].duration).value;
      }
    }
    return 0.0;
  };
  EXPECT_NEAR(norm_gradient(1.36), 3e-5 + 2048.0 * 2048 * 8 / 1e12, 1e-6);
  EXPECT_EQ(norm_gradient(1.36), norm_gradient(2.0));
}

TEST(OwnKernels, OtherFrameworksDoNotRunThem) {
  Plan plan;
  plan.tensor = 4;
  plan.micro_batches = 8;
  Job plain = job_of("gpt3-1.3b", without_kernels());
  Job measured = job_of("gpt3-1.3b", slow_kernels());
  plain.framework = measured.framework = find_framework("megatron");
  EXPECT_EQ(estimated(measured, plan), estimated(plain, plan));
  EXPECT_EQ(walked(measured, plan), walked(plain, plan));
}

}  // namespace
}  // namespace trireme::planner
