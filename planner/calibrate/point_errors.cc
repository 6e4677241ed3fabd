#include "planner/calibrate/point_errors.h"

#include <cmath>

#include "core/microbenchmarks_json.h"
#include "planner/calibrate/least_squares.h"
#include "planner/calibrate/profile_fit.h"
#include "topologies/grouped_tiles.h"

namespace trireme::planner {

using topologies::OpCost;
using topologies::Pass;
using topologies::Precision;

double predicted_seconds(const MatmulSample& sample, const OpCost& cost) {
  return cost.matmul({sample.m, sample.n, sample.k, 1}, topologies::precision_of(sample.precision))
      .value;
}

double predicted_seconds(const GroupedSample& sample, const OpCost& cost) {
  return cost
      .matmul(
          topologies::grouped_shape({sample.m, sample.n, sample.k, sample.experts},
                                    sample.layout == MatmulLayout::kWeightGradient, sample.adds),
          Precision::kBf16)
      .value;
}

double predicted_seconds(const AttentionSample& sample, Pass pass, const OpCost& cost) {
  return cost
      .attention({.batch = sample.batch,
                  .heads = sample.heads,
                  .kv_heads = sample.kv_heads,
                  .query_length = sample.sequence,
                  .key_length = sample.sequence,
                  .qk_dim = sample.head_size,
                  .v_dim = sample.head_size,
                  .causal = true,
                  .flash = true,
                  .portable = is_portable(sample)},
                 Precision::kBf16, pass)
      .value;
}

double predicted_seconds(const PassSample& sample, const OpCost& cost) {
  return cost.memory_bound(sample.traffic, 1).value;
}

std::optional<double> predicted_seconds(const KernelSample& sample, const OpCost& cost) {
  const auto kernel = find_kernel(sample.kernel);
  const auto seconds = kernel ? cost.own_kernel(*kernel, sample.traffic) : std::nullopt;
  return seconds ? std::optional(seconds->value) : std::nullopt;
}

bool is_fused(const AttentionSample& sample) {
  return sample.kernel == "cudnn" || is_portable(sample);
}

bool is_portable(const AttentionSample& sample) {
  return sample.kernel == "flash";
}

std::string_view layout_name(MatmulLayout layout) {
  return to_string(layout);
}

namespace {

// By precision and layout; those in bf16 are named by their layout alone.
std::vector<std::pair<std::string, std::vector<double>>> matmul_errors(
    const Microbenchmarks& points, const OpCost& cost) {
  std::vector<std::pair<std::string, std::vector<double>>> found;
  for (const MatmulPrecision precision :
       {MatmulPrecision::kBf16, MatmulPrecision::kFp16, MatmulPrecision::kFp8}) {
    for (const MatmulLayout layout :
         {MatmulLayout::kForward, MatmulLayout::kInputGradient, MatmulLayout::kWeightGradient}) {
      std::vector<double> errors;
      for (const MatmulSample& sample : points.matmuls) {
        if (sample.layout == layout && sample.precision == precision) {
          errors.push_back(
              std::abs(predicted_seconds(sample, cost) / sample.timing.median.value - 1));
        }
      }
      std::string name = "matrix products, " + std::string(to_string(layout));
      if (precision != MatmulPrecision::kBf16) {
        name += ", " + std::string(to_string(precision));
      }
      found.emplace_back(std::move(name), std::move(errors));
    }
  }
  return found;
}

}  // namespace

std::vector<FitLine> errors_on_points(const Microbenchmarks& points,
                                      const topologies::Cluster& cluster,
                                      const topologies::Profile& profile) {
  const OpCost cost(cluster, profile);
  std::vector<FitLine> lines;
  const auto add = [&lines](const std::string& what, const std::vector<double>& errors) {
    if (!errors.empty()) {
      lines.push_back({what, static_cast<int>(errors.size()), median_of(errors)});
    }
  };
  for (const auto& [what, errors] : matmul_errors(points, cost)) {
    add(what, errors);
  }
  std::vector<double> grouped;
  for (const GroupedSample& sample : points.grouped) {
    grouped.push_back(std::abs(predicted_seconds(sample, cost) / sample.timing.median.value - 1));
  }
  add("grouped products of experts", grouped);
  std::vector<double> forward, backward, passes;
  for (const AttentionSample& sample : points.attention) {
    if (!is_fused(sample)) {
      continue;
    }
    forward.push_back(std::abs(
        predicted_seconds(sample, Pass::kForward, cost) / sample.forward.median.value - 1));
    if (sample.backward.median.value > 0) {
      backward.push_back(std::abs(
          predicted_seconds(sample, Pass::kBackward, cost) / sample.backward.median.value - 1));
    }
  }
  for (const PassSample& sample : points.passes) {
    passes.push_back(std::abs(predicted_seconds(sample, cost) / sample.timing.median.value - 1));
  }
  add("attention, forward", forward);
  add("attention, backward", backward);
  add("memory-bound kernels", passes);
  std::vector<double> own;
  for (const KernelSample& sample : points.kernels) {
    if (const auto seconds = predicted_seconds(sample, cost)) {
      own.push_back(std::abs(*seconds / sample.timing.median.value - 1));
    }
  }
  add("own kernels", own);
  return lines;
}

}  // namespace trireme::planner
