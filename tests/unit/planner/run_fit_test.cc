// Corrections from whole runs: found when runs agree, small when there is one, and an interval that
// says how far runs are apart.
#include "planner/calibrate/run_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "core/error.h"
#include "core/files.h"
#include "core/json_reader.h"
#include "models/presets.h"
#include "planner/calibrate/training_log.h"
#include "planner/cost/interval.h"
#include "planner/cost/time.h"

namespace trireme::planner {
namespace {

MeasuredRun run_of(std::int64_t tensor, double seconds_factor) {
  MeasuredRun run;
  Job job;
  job.model = models::load_model("llama-3.1-8b");
  job.cluster = topologies::load_cluster("dgx-h100x1");
  job.framework = find_framework("nemo");  // whose host was not counted: the GPU binds
  job.profile = topologies::shipped_profile();
  job.global_batch = 8;
  Plan plan;
  plan.tensor = tensor;
  plan.sequence_parallel = tensor > 1;
  plan.replicas = 8 / tensor;
  plan.micro_batches = 8 / plan.replicas;
  run.job = job;
  run.plan = plan;
  run.name = "tp" + std::to_string(tensor);
  TimeEstimate estimate;
  TimeModel(job).estimate(plan, estimate);
  run.step_seconds = seconds_factor * estimate.step_seconds;
  return run;
}

TEST(RunFit, RunsThatAgreeAreFollowed) {
  topologies::Profile profile = topologies::shipped_profile();
  const RunFit fit =
      fit_runs({run_of(1, 1.2), run_of(2, 1.2), run_of(4, 1.2), run_of(8, 1.2)}, profile);
  EXPECT_NEAR(fit.error_before, 1 - 1 / 1.2, 1e-6);
  EXPECT_LT(fit.error_after, 0.03);
  EXPECT_GT(profile.corrections.at("compute").factor, 1.1);
  ASSERT_TRUE(profile.interval);
  EXPECT_EQ(profile.interval->runs, 4);
  EXPECT_LT(profile.interval->low, 1);
  EXPECT_GT(profile.interval->high, 1);
}

TEST(RunFit, OneRunIsNotBelievedAllTheWay) {
  topologies::Profile one = topologies::shipped_profile();
  topologies::Profile many = topologies::shipped_profile();
  const RunFit fit_of_one = fit_runs({run_of(1, 1.3)}, one);
  const RunFit fit_of_many =
      fit_runs({run_of(1, 1.3), run_of(1, 1.3), run_of(1, 1.3), run_of(1, 1.3)}, many);
  EXPECT_GT(one.corrections.at("compute").factor, 1.05);
  EXPECT_LT(one.corrections.at("compute").factor, many.corrections.at("compute").factor);
  EXPECT_LT(fit_of_many.error_after, fit_of_one.error_after);
  EXPECT_LT(fit_of_one.error_after, fit_of_one.error_before);
  // The step as a whole is not corrected beyond what was measured.
  EXPECT_LT(fit_of_many.runs[0].after_seconds, 1.02 * fit_of_many.runs[0].measured_seconds);
  EXPECT_LT(one.corrections.at("compute").evidence, many.corrections.at("compute").evidence);
}

TEST(RunFit, RunsThatDisagreeWidenTheInterval) {
  topologies::Profile close = topologies::shipped_profile();
  topologies::Profile apart = topologies::shipped_profile();
  fit_runs({run_of(1, 1.0), run_of(2, 1.01), run_of(4, 0.99)}, close);
  fit_runs({run_of(1, 1.3), run_of(2, 0.8), run_of(4, 1.1)}, apart);
  EXPECT_GT(apart.interval->high / apart.interval->low,
            1.3 * close.interval->high / close.interval->low);
  // The interval is what predictions carry.
  const Job job = *run_of(1, 1).job;
  const Interval interval = interval_of(job.framework, close);
  EXPECT_DOUBLE_EQ(interval.low, close.interval->low);
}

// A step of a small model under Megatron's local layers, on a host that takes `host` times as long
// to issue it as was fitted.
MeasuredRun run_of_slow_host(std::int64_t micro_batch, double host) {
  MeasuredRun run;
  Job job;
  job.model = models::load_model("gpt3-1.3b");
  job.cluster = topologies::load_cluster("hgx-h200x1");
  job.cluster.gpus = 2;
  job.framework = find_framework("megatron");
  job.framework.implementation = models::Implementation::kClassicMegatron;
  job.profile = topologies::shipped_profile();
  job.sequence = 1024;
  job.global_batch = 16;
  Plan plan;
  plan.replicas = 2;
  plan.micro_batch = micro_batch;
  plan.micro_batches = 8 / micro_batch;
  run.job = job;
  run.plan = plan;
  run.name = "mb" + std::to_string(micro_batch);
  job.profile.corrections["host"].factor = host;
  TimeEstimate estimate;
  TimeModel(job).estimate(plan, estimate);
  run.step_seconds = estimate.step_seconds;
  return run;
}

TEST(RunFit, ASlowHostIsFoundInTheStepsThatItBinds) {
  topologies::Profile profile = topologies::shipped_profile();
  const RunFit fit =
      fit_runs({run_of_slow_host(1, 4), run_of_slow_host(2, 4), run_of_slow_host(8, 4)}, profile);
  EXPECT_GT(fit.error_before, 0.15);
  EXPECT_LT(fit.error_after, 0.06);
  EXPECT_GT(profile.corrections.at("host").factor, 2.5);
  EXPECT_NEAR(profile.corrections.at("compute").factor, 1, 0.08);
  // And a profile's file keeps it.
  const topologies::Profile read =
      topologies::parse_profile(topologies::profile_text(profile), "profile");
  EXPECT_DOUBLE_EQ(topologies::correction_of(read, "host"),
                   topologies::correction_of(profile, "host"));
}

TEST(RunFit, StepsThatTheGpuBindsSayNothingOfTheHost) {
  topologies::Profile profile = topologies::shipped_profile();
  fit_runs({run_of(1, 1.1), run_of(2, 1.1)}, profile);
  EXPECT_FALSE(profile.corrections.contains("host"));
}

TEST(RunFit, OpsOfAResultCorrectTheirCategories) {
  MeasuredRun run;
  run.name = "result";
  run.step_seconds = 1.2;
  run.predicted_step_seconds = 1.0;
  run.categories["compute"] = {1.0, 1.0};
  run.categories["collective"] = {0.3, 0.2};
  topologies::Profile profile = topologies::shipped_profile();
  fit_runs({run, run, run}, profile);
  EXPECT_NEAR(profile.corrections.at("compute").factor, 1, 0.03);
  EXPECT_GT(profile.corrections.at("collective").factor, 1.25);
  EXPECT_FALSE(profile.corrections.contains("send_recv"));
}

TEST(RunFit, ReadsAResultAndRefusesOneWithoutPredictions) {
  const std::string path = testing::TempDir() + "/trireme_run_result.json";
  const auto write = [&path](const std::string& predicted) {
    write_file_atomically(path, R"({"schema": "trireme.run/1", "median_step_seconds": 0.5, "ops": [
      {"op": "forward mlp", "category": "compute", "stage": 0, "count": 10,
       "median_seconds": 0.02, "predicted_seconds": )" +
                                    predicted + R"(},
      {"op": "forward gather", "category": "tensor_parallel", "stage": 0, "count": 4,
       "median_seconds": 0.01, "predicted_seconds": )" +
                                    predicted + "}]}");
  };
  write("0.01");
  const MeasuredRun run = read_run_result(path);
  EXPECT_DOUBLE_EQ(run.categories.at("compute").measured, 0.2);
  EXPECT_DOUBLE_EQ(run.categories.at("collective").predicted, 0.04);
  write("null");
  EXPECT_THROW(read_run_result(path), Error);
  std::remove(path.c_str());
}

TEST(StepLog, ReadsMegatronAndTorchtitan) {
  const StepLog megatron = parse_step_log(
      " [2026-01-02 03:04:05] iteration        1/    50 | consumed samples: 128 | elapsed time per "
      "iteration (ms): 9000.0 | throughput per GPU (TFLOP/s/GPU): 40.1 | lm loss: 1.1E+01 |\n"
      " iteration        2/    50 | elapsed time per iteration (ms): 1234.5 | lm loss: 9.9 |\n"
      " iteration        3/    50 | elapsed time per iteration (ms): 1230.5 |\n",
      "log");
  EXPECT_EQ(megatron.format, "megatron");
  EXPECT_NEAR(steady_step_seconds(megatron, 1, 1), 1.2325, 1e-9);
  const StepLog titan = parse_step_log(
      "[rank0]:\x1b[31mstep:  1  \x1b[32mloss: 12.2  \x1b[33mmemory: 40.1GiB(42%)  \x1b[34mtps: "
      "612  \x1b[35mmfu: 3.5%\x1b[39m\n"
      "[rank0]:step: 10  loss: 9.8  memory: 47.5GiB(50.0%)  tps: 5,762  mfu: 33.7%\n"
      "[rank0]:step: 20  loss: 8.8  memory: 47.5GiB(50.0%)  tps: 5,762  tflops: 333.6\n",
      "log");
  EXPECT_EQ(titan.format, "torchtitan");
  // 8 GPUs, 8 sequences of 8192 tokens.
  EXPECT_NEAR(steady_step_seconds(titan, 8.0 * 8192, 8), 8192.0 / 5762, 1e-9);
  EXPECT_THROW(parse_step_log("no step here\n", "log"), Error);
  const StepLog own = parse_step_log(
      R"({"schema": "x", "step_seconds": [2.5, 0.42, 4.0e-1, 0.44, 0.43], "loss": 10.5})", "log");
  EXPECT_EQ(own.step_seconds, (std::vector<double>{2.5, 0.42, 0.4, 0.44, 0.43}));
  EXPECT_DOUBLE_EQ(steady_step_seconds(own, 1, 1), 0.43);
  EXPECT_THROW(parse_step_log("\"step_seconds\": [0.4, x]\n", "log"), Error);
  // Found by fuzzing: read as infinite seconds, and as rates whose time is.
  EXPECT_THROW(parse_step_log("\"step_seconds\": [ INFO - step:  1\n", "log"), Error);
  EXPECT_THROW(parse_step_log("step:  1  tps: 1e-308\n", "log"), Error);
}

}  // namespace
}  // namespace trireme::planner
