// Predicted against published step time: the error of every source, ranking over layouts, and the
// cases of practitioners that have numbers. Of the sources that ship some are fitted, so that their
// errors are in-sample (fit_test.cc has those left out); the whole corpus lies outside the project
// and is scored too when it is there.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "models/presets.h"
#include "planner/calibrate/validation.h"
#include "planner/cost/estimate.h"
#include "tests/published/shared_data.h"
#include "topologies/profile.h"

namespace trireme::planner {
namespace {

struct Scored {
  std::vector<ValidationCase> cases;
  std::vector<ValidatedRow> rows;
};

Scored score(const std::vector<PublishedFile>& files) {
  Scored scored;
  const topologies::Profile& profile = topologies::shipped_profile();
  scored.cases = validation_cases(files, profile);
  for (const ValidationCase& one : scored.cases) {
    scored.rows.push_back(validate_case(one, profile));
  }
  return scored;
}

std::map<std::string, SourceErrors> errors_of(const Scored& scored) {
  std::map<std::string, SourceErrors> by_source;
  for (const SourceErrors& errors : source_errors(scored.cases, scored.rows, is_gated_row)) {
    by_source[errors.source] = errors;
    fmt::print("{:24} {:4} rows  mean |error| {:5.2f} %  mean {:+6.2f} %  worst {:+7.2f} %\n",
               errors.source, errors.compared, 100 * errors.mean_absolute, 100 * errors.mean,
               100 * errors.worst);
  }
  return by_source;
}

// What is reached, with a little air, so that a change that makes a source worse is seen. The
// targets that are missed are named in docs/accuracy.md.
struct Gate {
  const char* source;
  double mean_absolute;
};

void expect_gates(const std::map<std::string, SourceErrors>& errors,
                  const std::vector<Gate>& gates) {
  for (const Gate& gate : gates) {
    ASSERT_TRUE(errors.contains(gate.source)) << gate.source;
    EXPECT_GT(errors.at(gate.source).compared, 0) << gate.source;
    EXPECT_LE(errors.at(gate.source).mean_absolute, gate.mean_absolute) << gate.source;
  }
}

TEST(StepTime, ShippedRowsOfEverySource) {
  const auto errors = errors_of(score(shipped_rows()));
  expect_gates(errors, {{"korthikanti_2022", 0.10},
                        {"megatron_sc21", 0.05},
                        {"simumax_b200", 0.12},
                        {"vtrain_single_node", 0.09},
                        {"vtrain_multi_node", 0.12},
                        {"bloom_bigscience", 0.125},
                        {"torchtitan", 0.095},
                        {"llm_foundry_mpt", 0.08},
                        {"internevo", 0.13},
                        {"nemo_launcher_a100", 0.12},
                        {"zero_bubble_2024", 0.08},
                        {"torch_h200", 0.05},
                        {"pytorch_side", 0.06},
                        {"megatron_core_h100", 0.10}});
}

// 8-bit runs without experts, none of which is fitted.
TEST(StepTime, Fp8WithoutExperts) {
  const Scored scored = score(shipped_rows());
  for (const SourceErrors& errors :
       source_errors(scored.cases, scored.rows, [](const ValidationCase& one) {
         return is_measured_row(one) && !one.found.job.model.moe &&
                one.found.job.precision == topologies::Precision::kFp8;
       })) {
    if (errors.source == "megatron_bridge_perf") {
      fmt::print("fp8, no experts: {} rows, mean |error| {:.1f} %\n", errors.compared,
                 100 * errors.mean_absolute);
      EXPECT_GE(errors.compared, 10);
      EXPECT_LE(errors.mean_absolute, 0.09);
    }
  }
}

// Ranks with ties shared.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<double> ranks;
  for (const double value : values) {
    double rank = 0;
    for (const double other : values) {
      rank += other < value ? 1.0 : other == value ? 0.5 : 0.0;
    }
    ranks.push_back(rank);
  }
  return ranks;
}

double spearman(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = ranks_of(a);
  const std::vector<double> y = ranks_of(b);
  const auto n = static_cast<double>(x.size());
  double mean = 0;
  for (const double rank : x) {
    mean += rank / n;
  }
  double xy = 0;
  double xx = 0;
  double yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xy / std::sqrt(xx * yy);
}

class PublishedCorpus : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(published::published_folder())) {
      GTEST_SKIP() << "no published rows at " << published::published_folder();
    }
  }
};

TEST_F(PublishedCorpus, EverySource) {
  const auto errors = errors_of(score(read_published(published::published_folder())));
  expect_gates(errors, {{"korthikanti_2022", 0.07},
                        {"megatron_sc21", 0.06},
                        {"simumax_b200", 0.12},
                        {"vtrain_single_node", 0.085},
                        {"vtrain_multi_node", 0.09},
                        {"bloom_bigscience", 0.125},
                        {"torchtitan", 0.095},
                        {"llm_foundry_mpt", 0.07},
                        {"internevo", 0.14},
                        {"nemo_launcher_a100", 0.12},
                        {"zero_bubble_2024", 0.06},
                        {"torch_h200", 0.05}});
}

// vTrain's grid of layouts for four models: the layout predicted fastest is nearly the fastest.
TEST_F(PublishedCorpus, RankingOfLayouts) {
  const Scored scored =
      score(read_published(published::published_folder() + "/vtrain_multi_node.json"));
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> sets;
  for (std::size_t i = 0; i < scored.rows.size(); ++i) {
    if (is_gated_row(scored.cases[i])) {
      auto& [measured, predicted] = sets[scored.cases[i].row.model];
      measured.push_back(*scored.rows[i].measured_seconds);
      predicted.push_back(*scored.rows[i].predicted_seconds);
    }
  }
  ASSERT_EQ(sets.size(), 4U);
  for (const auto& [model, pair] : sets) {
    const auto& [measured, predicted] = pair;
    const auto chosen = static_cast<std::size_t>(
        std::min_element(predicted.begin(), predicted.end()) - predicted.begin());
    const double regret =
        measured[chosen] / *std::min_element(measured.begin(), measured.end()) - 1;
    const double agreement = spearman(measured, predicted);
    fmt::print("{:12} {:2} layouts  top-1 regret {:.2f} %  Spearman {:.3f}\n", model,
               measured.size(), 100 * regret, agreement);
    EXPECT_LE(regret, 0.05) << model;
    EXPECT_GE(agreement, 0.6) << model;  // 0.9 is asked; docs/accuracy.md says what is in the way
  }
}

// The practitioners' cases that are about step time.
class Practitioners : public ::testing::Test {
 protected:
  static Plan degrees(std::int64_t tensor, std::int64_t pipeline, std::int64_t sharded,
                      std::int64_t replicas, std::int64_t micro_batch) {
    Plan plan;
    plan.tensor = tensor;
    plan.pipeline = pipeline;
    plan.sharded = sharded;
    plan.replicas = replicas;
    plan.micro_batch = micro_batch;
    return plan;
  }
  static double seconds(const Job& job, Plan plan) {
    plan.micro_batches = job.global_batch / (plan.micro_batch * plan.data_parallel());
    TimeEstimate estimate;
    TimeModel(job).estimate(plan, estimate);
    return estimate.step_seconds;
  }
  static Job job(const std::string& model, const std::string& cluster, const std::string& framework,
                 std::int64_t sequence, std::int64_t batch) {
    Job job;
    job.model = models::load_model(model);
    job.cluster = topologies::load_cluster(cluster);
    job.framework = find_framework(framework);
    job.profile = topologies::shipped_profile();
    job.sequence = sequence;
    job.global_batch = batch;
    return job;
  }
};

// S01: GPT 3.6B on 64 A100: pure data parallelism first, a cliff where tensor parallelism leaves
// NVLink.
TEST_F(Practitioners, TensorParallelismFallsOffTheNode) {
  Job job = this->job("gpt2", "dgx-a100-80gbx8", "megatron", 2048, 512);
  job.model.layers = 30;
  job.model.hidden = 3072;
  job.model.ffn = 12288;
  job.model.heads = job.model.kv_heads = 32;
  job.model.head_dim = 96;
  job.model.max_sequence = job.model.position_rows = 2048;
  job.framework.implementation = models::Implementation::kClassicMegatron;
  job.attention = models::AttentionKernel::kUnfused;
  job.precision = topologies::Precision::kFp16;
  job.cluster.node.nics = 4;  // 800 Gb/s a node
  const auto at = [&](std::int64_t tensor, std::int64_t micro_batch) {
    Plan plan = degrees(tensor, 1, 1, 64 / tensor, micro_batch);
    plan.recompute = Recompute::kFull;
    return seconds(job, plan);
  };
  EXPECT_LT(at(1, 8), at(2, 8));
  EXPECT_LT(at(2, 8), at(8, 8));
  EXPECT_GT(at(16, 32), 1.4 * at(8, 16));  // measured 10.6 to 13.5 s against 5.0 to 9.8 s
  EXPECT_NEAR(at(1, 8), 3.567, 0.4);
}

// S09: 7B under hybrid sharding on 64 H100 does not take 8 s a step on 400 Gb/s a GPU.
TEST_F(Practitioners, AHealthyFabricIsNotTheCauseOfEightSeconds) {
  const Job job = this->job("llama-2-7b", "dgx-h100x8", "fsdp1", 4096, 128);
  Plan plan = degrees(1, 1, 8, 8, 2);
  plan.sharding = Sharding::kFull;
  EXPECT_LT(seconds(job, plan), 2.0);
}

// S10: MFU is against the dense peak.
TEST_F(Practitioners, ThePeakIsTheDenseOne) {
  const Job job = this->job("llama-2-7b", "dgx-h100x1", "fsdp2", 4096, 16);
  Plan plan = degrees(1, 1, 8, 1, 2);
  plan.sharding = Sharding::kFull;
  Estimate estimate;
  Estimator(job).estimate(plan, estimate);
  EXPECT_NEAR(estimate.throughput.peak_tflops, 989.4, 0.5);
}

// S12: with many micro-batches, a pipeline beats tensor parallelism inside one A100 node.
TEST_F(Practitioners, PipelineBeatsTensorParallelismInANode) {
  Job job = this->job("gpt2", "dgx-a100-80gbx1", "megatron", 512, 512);
  job.model.layers = 40;  // BERT of 8B parameters
  job.model.hidden = 4096;
  job.model.ffn = 16384;
  job.model.heads = job.model.kv_heads = 32;
  job.model.head_dim = 128;
  job.model.vocab = 30522;
  job.framework.implementation = models::Implementation::kClassicMegatron;
  job.attention = models::AttentionKernel::kUnfused;
  job.precision = topologies::Precision::kFp16;
  Plan tensor = degrees(8, 1, 1, 1, 4);
  Plan pipeline = degrees(1, 8, 1, 1, 4);
  EXPECT_GT(seconds(job, tensor), 1.1 * seconds(job, pipeline));
}

// S19: from 8 to 128 GPUs FSDP loses a few per cent of its speed.
TEST_F(Practitioners, WeakScalingOfFsdp) {
  const auto at = [&](std::int64_t nodes) {
    const Job job = this->job("llama-3.1-8b", fmt::format("hgx-h100-96gbx{}", nodes), "fsdp2", 8192,
                              16 * nodes);
    Plan plan = degrees(1, 1, 8 * nodes, 1, 2);
    plan.sharding = Sharding::kFull;
    plan.recompute = Recompute::kSelective;
    plan.recompute_modules = kTorchPerOp;
    return seconds(job, plan);
  };
  EXPECT_NEAR(at(1), 2.843, 0.3);  // 5,762 tokens/s
  EXPECT_GE(at(16), 0.97 * at(1));
  EXPECT_LT(at(16), 1.08 * at(1));
}

// S22: GPT-175B at a fixed batch from 96 to 4,608 H100 loses efficiency.
TEST_F(Practitioners, StrongScalingLosesEfficiency) {
  const auto gpu_seconds = [&](std::int64_t nodes) {
    const Job job =
        this->job("gpt3-175b", fmt::format("dgx-h100x{}", nodes), "megatron", 2048, 1152);
    Plan plan = degrees(8, 6, 1, 1, 1);
    plan.sharded = nodes * 8 / 48;
    plan.sharding = Sharding::kOptimizer;
    plan.sequence_parallel = true;
    return seconds(job, plan) * static_cast<double>(nodes * 8);
  };
  const double small = gpu_seconds(12);
  EXPECT_GT(gpu_seconds(144), small);
  EXPECT_GT(gpu_seconds(576), gpu_seconds(144));
}

}  // namespace
}  // namespace trireme::planner
