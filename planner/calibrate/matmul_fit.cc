#include "planner/calibrate/matmul_fit.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "planner/calibrate/point_errors.h"
#include "planner/calibrate/prior_fit.h"
#include "topologies/op_cost.h"

namespace trireme::planner {
namespace {

using topologies::GpuFit;
using topologies::OpCost;
using topologies::Profile;
using Samples = std::vector<MatmulSample>;

constexpr std::size_t kLargestTable = 160;  // of one precision
constexpr double kWellPredicted = 0.03;
constexpr std::size_t kFewest = 3;  // samples that constants are fitted on

Samples in_precision(const Samples& samples, MatmulPrecision precision) {
  Samples found;
  std::ranges::copy_if(samples, std::back_inserter(found), [precision](const MatmulSample& sample) {
    return sample.precision == precision;
  });
  return found;
}

struct MatmulConstant {
  const char* name;
  double width;  // of its logarithm, among cards of a kind
  double high;
};

// The constants of `fit` that products speak of, from their values so far.
void fit_constants_of(const Samples& samples, const std::vector<MatmulConstant>& constants,
                      const topologies::Cluster& cluster, Profile& profile, GpuFit& fit) {
  constexpr double kError = 0.05;  // expected of a product's logarithm
  PriorProblem problem;
  std::vector<std::size_t> all;
  for (const MatmulConstant& constant : constants) {
    all.push_back(all.size());
    problem.constants.push_back({fit.constants.at(constant.name), constant.width, constant.high});
  }
  problem.moved_by.assign(samples.size(), all);
  const auto apply = [&](const std::vector<double>& values) {
    for (std::size_t i = 0; i < constants.size(); ++i) {
      fit.constants[constants[i].name] = values[i];
    }
    profile.gpus[cluster.gpu.name] = fit;
  };
  std::vector<double> applied;
  std::optional<OpCost> cost;
  problem.residual = [&](std::size_t row, const std::vector<double>& values) {
    if (!cost || applied != values) {
      apply(values);
      applied = values;
      cost.emplace(cluster, profile);
    }
    return std::log(predicted_seconds(samples[row], *cost) / samples[row].timing.median.value) /
           kError;
  };
  apply(fit_with_priors(problem).values);
}

topologies::MatmulPoint point_of(const MatmulSample& sample) {
  const auto m = static_cast<double>(sample.m);
  const auto n = static_cast<double>(sample.n);
  const auto k = static_cast<double>(sample.k);
  return {m,
          n,
          k,
          FlopPerSecond(2.0 * m * n * k / sample.timing.median.value),
          std::string(layout_name(sample.layout)),
          sample.precision};
}

// All products when they are few; of a long sweep those that the table so far predicts worst, until
// none is far off: a short table answers fast.
void fit_products(const Samples& samples, const topologies::Cluster& cluster, Profile& profile,
                  GpuFit& fit) {
  std::vector<bool> taken(samples.size(), false);
  std::size_t rows = 0;
  constexpr std::size_t kAtOnce = 8;
  while (rows < kLargestTable) {
    profile.gpus[cluster.gpu.name] = fit;
    const OpCost cost(cluster, profile);
    std::vector<std::pair<double, std::size_t>> errors;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (!taken[i]) {
        errors.emplace_back(-std::abs(std::log(predicted_seconds(samples[i], cost) /
                                               samples[i].timing.median.value)),
                            i);
      }
    }
    std::ranges::sort(errors);
    const bool few = samples.size() <= kLargestTable;
    if (errors.empty() || (!few && errors.front().first > -kWellPredicted)) {
      break;
    }
    for (std::size_t i = 0; i < std::min(kAtOnce, errors.size()); ++i) {
      fit.matmuls.push_back(point_of(samples[errors[i].second]));
      taken[errors[i].second] = true;
      ++rows;
    }
  }
  profile.gpus[cluster.gpu.name] = fit;
}

}  // namespace

void fit_matmuls(const std::vector<MatmulSample>& samples, const topologies::Cluster& cluster,
                 Profile& profile, GpuFit& fit) {
  const Samples bf16 = in_precision(samples, MatmulPrecision::kBf16);
  const Samples fp16 = in_precision(samples, MatmulPrecision::kFp16);
  const Samples fp8 = in_precision(samples, MatmulPrecision::kFp8);
  // The share of the peak, and the columns of K that a tile takes to fill its pipeline.
  const std::vector<MatmulConstant> half = {{"matmul_efficiency", 0.3, 1},
                                            {"matmul_half_k", 1.0, 3000}};
  if (bf16.size() >= kFewest) {
    fit_constants_of(bf16, half, cluster, profile, fit);
  } else if (fp16.size() >= kFewest &&
             !topologies::matmul_table(fit, topologies::Precision::kBf16)) {
    fit_constants_of(fp16, half, cluster, profile, fit);
  }
  // fp8 shares the depth of its pipeline with 16 bits.
  if (fp8.size() >= kFewest) {
    fit_constants_of(fp8, {{"fp8_efficiency", 0.3, 1}}, cluster, profile, fit);
  }
  for (const Samples& each : {bf16, fp16, fp8}) {
    fit_products(each, cluster, profile, fit);
  }
}

void fit_grouped(const std::vector<GroupedSample>& samples, const topologies::Cluster& cluster,
                 Profile& profile, GpuFit& fit) {
  for (const GroupedSample& sample : samples) {
    const auto number = [](std::int64_t value) { return static_cast<double>(value); };
    const double flop =
        2.0 * number(sample.experts) * number(sample.m) * number(sample.n) * number(sample.k);
    fit.grouped.push_back({number(sample.experts), number(sample.m), number(sample.n),
                           number(sample.k), FlopPerSecond(flop / sample.timing.median.value),
                           sample.layout, sample.adds});
  }
  profile.gpus[cluster.gpu.name] = fit;
}

}  // namespace trireme::planner
