#include "planner/calibrate/matmul_fit.h"

#include <algorithm>
#include <cmath>

#include "planner/calibrate/nelder_mead.h"
#include "planner/calibrate/point_errors.h"
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

double misfit_of(const Samples& samples, const topologies::Cluster& cluster,
                 const Profile& profile) {
  constexpr double kScale = 0.05;
  const OpCost cost(cluster, profile);
  double sum = 0;
  for (const MatmulSample& sample : samples) {
    const double error =
        std::abs(std::log(predicted_seconds(sample, cost) / sample.timing.median.value));
    sum += error < kScale ? error * error / (2 * kScale) : error - kScale / 2;
  }
  return sum / static_cast<double>(samples.size());
}

// The two constants that a table of products in 16 bits speaks of: the share of the peak, and the
// columns of K that a tile takes to fill its pipeline.
void fit_half_constants(const Samples& samples, const topologies::Cluster& cluster,
                        Profile& profile, GpuFit& fit) {
  const double efficiency = fit.constants.at("matmul_efficiency");
  const double half_k = fit.constants.at("matmul_half_k");
  const auto apply = [&](const std::vector<double>& at) {
    fit.constants["matmul_efficiency"] = std::clamp(efficiency * std::exp(0.2 * at[0]), 0.02, 1.0);
    fit.constants["matmul_half_k"] = std::clamp(half_k * std::exp(at[1]), 5.0, 3000.0);
    profile.gpus[cluster.gpu.name] = fit;
  };
  const auto loss = [&](const std::vector<double>& at) {
    apply(at);
    return misfit_of(samples, cluster, profile);
  };
  apply(nelder_mead(loss, {0, 0}, 0.5, 160).at);
}

// Products in fp8 share the depth of their pipeline with those in 16 bits: the share of their own
// peak is all that the model has for them.
void fit_fp8_constant(const Samples& samples, const topologies::Cluster& cluster, Profile& profile,
                      GpuFit& fit) {
  const double efficiency = fit.constants.at("fp8_efficiency");
  const auto apply = [&](const std::vector<double>& at) {
    fit.constants["fp8_efficiency"] = std::clamp(efficiency * std::exp(0.2 * at[0]), 0.02, 1.0);
    profile.gpus[cluster.gpu.name] = fit;
  };
  const auto loss = [&](const std::vector<double>& at) {
    apply(at);
    return misfit_of(samples, cluster, profile);
  };
  apply(nelder_mead(loss, {0}, 0.5, 80).at);
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
void fit_table(const Samples& samples, const topologies::Cluster& cluster, Profile& profile,
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
  if (bf16.size() >= kFewest) {
    fit_half_constants(bf16, cluster, profile, fit);
  } else if (fp16.size() >= kFewest &&
             !topologies::matmul_table(fit, topologies::Precision::kBf16)) {
    fit_half_constants(fp16, cluster, profile, fit);
  }
  if (fp8.size() >= kFewest) {
    fit_fp8_constant(fp8, cluster, profile, fit);
  }
  for (const Samples& each : {bf16, fp16, fp8}) {
    fit_table(each, cluster, profile, fit);
  }
}

}  // namespace trireme::planner
