#include "planner/cost/formulas.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/check.h"

namespace trireme::planner {
namespace {

constexpr double kLn2 = 0.693147180559945309417;

}  // namespace

double f1_shard(const Symbols& s) {
  return s.parameters / s.devices;
}

double f1_padding(const std::vector<std::int64_t>& units, std::int64_t devices) {
  std::int64_t padding = 0;
  for (const std::int64_t unit : units) {
    padding += (unit + devices - 1) / devices * devices - unit;
  }
  return static_cast<double>(padding);
}

double f2_forward_peak(double activations, double temporary, double owned) {
  return activations + temporary + owned;
}

double f3_fsdp_memory(const Symbols& s) {
  return 4 * s.parameters / s.devices + s.activations + s.parameters * s.gathered_share;
}

double f4_megatron_memory(const Symbols& s) {
  return 4 * s.parameters / (s.tensor * s.pipeline) + s.activations / s.tensor;
}

double f5_ratio(const Symbols& s) {
  return f3_fsdp_memory(s) / (4 * s.parameters / s.devices + s.activations / s.tensor);
}
double f5_limit_activations(const Symbols& s) {
  return s.tensor;
}
double f5_limit_state(const Symbols& s) {
  return 1 + s.devices * s.gathered_share / 4;
}

double f6_memory_reduction(const Symbols& s) {
  return s.devices * (1 + s.activation_ratio) / (1 + s.activation_ratio * s.devices);
}

double f7_hybrid_state(double parameters, double sharded, double tensor) {
  return parameters / (sharded * tensor);
}

double f9_fsdp_volume(const Symbols& s) {
  return 2 * s.parameters * s.element_bytes * std::log2(s.devices);
}
double f9_gather_optimal(const Symbols& s) {
  return s.parameters * s.element_bytes * (s.devices - 1) / s.devices;
}

double f10_data_parallel_volume(const Symbols& s) {
  return s.parameters * s.element_bytes * std::log2(s.devices);
}
double f10_all_reduce_optimal(const Symbols& s) {
  return 2 * s.parameters * s.element_bytes * (s.devices - 1) / s.devices;
}

double f11_tensor_volume(const Symbols& s) {
  return 3 * s.hidden * s.hidden * s.element_bytes * std::log2(s.tensor);
}
double f11_tensor_activations(const Symbols& s) {
  return s.tensor > 1 ? 4 * s.micro_batch_tokens * s.hidden * s.element_bytes : 0.0;
}

double f12_pipeline_volume(const Symbols& s) {
  return 2 * s.micro_batch_tokens * s.hidden * s.element_bytes;
}
double f12_megatron_volume(const Symbols& s) {
  return s.layers * f11_tensor_volume(s) + f12_pipeline_volume(s) * s.pipeline;
}

double f13_ratio(const Symbols& s) {
  const double boundary =
      2 * s.micro_batch_tokens * s.hidden * s.pipeline / (s.layers * s.hidden * s.hidden);
  return 2 * std::log2(s.devices) / (3 * std::log2(s.tensor) + boundary);
}
double f13_ratio_real(const Symbols& s) {
  return f13_ratio(s) * s.parameters / (s.layers * s.hidden * s.hidden);
}
double f13_limit(const Symbols& s) {
  return 2 * std::log2(s.devices) / (3 * std::log2(s.tensor));
}

Seconds f14_log_collective(double devices, Seconds latency, Bytes size, BytesPerSecond bandwidth) {
  return std::ceil(std::log2(devices)) * (latency + size / bandwidth);
}

double f15_tensor_degree(const std::vector<TensorOption>& options, double hidden,
                         double columns_min) {
  TRIREME_CHECK(!options.empty());
  const auto seconds = [](const TensorOption& option) {
    return option.bandwidth.value > 0 ? option.bytes / option.bandwidth.value
                                      : std::numeric_limits<double>::infinity();
  };
  const auto best = std::min_element(
      options.begin(), options.end(),
      [&](const TensorOption& a, const TensorOption& b) { return seconds(a) < seconds(b); });
  return std::min(best->tensor, hidden / columns_min);
}

double f16_reduction_volume(const Symbols& s, bool deferred) {
  const double once = s.parameters * s.element_bytes * (s.devices - 1) / s.devices;
  return deferred ? once : once * s.micro_batches;
}

Bubbles f17_bubbles(double pipeline, double micro_batches, double virtual_pipeline) {
  const double idle = pipeline - 1;
  const double work = virtual_pipeline * micro_batches;
  return {.as_given = idle / (pipeline * micro_batches),
          .over_ideal = idle / work,
          .over_total = idle / (work + idle)};
}
double f17_micro_batches_for_90_percent(double pipeline) {
  return 10 * (pipeline - 1) / pipeline;
}

double f18_imbalance(const std::vector<double>& stage_times) {
  TRIREME_CHECK(!stage_times.empty());
  const auto [low, high] = std::minmax_element(stage_times.begin(), stage_times.end());
  const double mean =
      std::reduce(stage_times.begin(), stage_times.end()) / static_cast<double>(stage_times.size());
  return mean > 0 ? (*high - *low) / mean : 0.0;
}

double f19_fsdp_time(double compute, double communication, double devices) {
  return compute / devices + communication * std::log2(devices);
}
double f19_megatron_time(const MegatronTime& t, double tensor_degree, double pipeline_degree) {
  return t.compute / (tensor_degree * pipeline_degree) + t.tensor * std::log2(tensor_degree) +
         t.pipeline + t.bubble;
}

double f20_objective(const Objective& o, double tensor, double pipeline, double micro_batches) {
  return o.a / (tensor * pipeline) + o.b * std::log2(tensor) + o.g * pipeline +
         o.e * pipeline / micro_batches;
}
double f20_slope_tensor(const Objective& o, double tensor, double pipeline) {
  return -o.a / (tensor * tensor * pipeline) + o.b / (tensor * kLn2);
}
double f20_slope_pipeline(const Objective& o, double tensor, double pipeline,
                          double micro_batches) {
  return -o.a / (tensor * pipeline * pipeline) + o.g + o.e / micro_batches;
}
double f20_tensor_optimum(const Objective& o, double pipeline) {
  return o.a * kLn2 / (o.b * pipeline);
}
double f20_pipeline_optimum(const Objective& o, double tensor, double micro_batches) {
  return std::sqrt(o.a / (tensor * (o.g + o.e / micro_batches)));
}
double f20_constrained_tensor(const Objective& o, double devices, double micro_batches) {
  return devices * kLn2 * (o.g + o.e / micro_batches) / o.b;
}

Objective f20_fit(const std::vector<ObjectivePoint>& points) {
  TRIREME_CHECK(!points.empty());
  const auto row_of = [](const ObjectivePoint& p) {
    return Eigen::RowVector4d(1 / (p.tensor * p.pipeline), std::log2(p.tensor), p.pipeline,
                              p.pipeline / p.micro_batches);
  };
  // Coefficients are costs: one that comes out negative is left out and the rest fitted again.
  std::vector<int> kept = {0, 1, 2, 3};
  Eigen::Vector4d solution = Eigen::Vector4d::Zero();
  while (!kept.empty()) {
    const auto columns = static_cast<Eigen::Index>(kept.size());
    Eigen::MatrixXd matrix(static_cast<Eigen::Index>(points.size()), columns);
    Eigen::VectorXd seconds(static_cast<Eigen::Index>(points.size()));
    for (std::size_t i = 0; i < points.size(); ++i) {
      const auto row = static_cast<Eigen::Index>(i);
      seconds(row) = points[i].seconds;
      for (Eigen::Index c = 0; c < columns; ++c) {
        matrix(row, c) = row_of(points[i])(kept[static_cast<std::size_t>(c)]);
      }
    }
    const Eigen::VectorXd fitted = matrix.completeOrthogonalDecomposition().solve(seconds);
    Eigen::Index worst = 0;
    if (fitted.minCoeff(&worst) >= 0) {
      for (Eigen::Index c = 0; c < columns; ++c) {
        solution(kept[static_cast<std::size_t>(c)]) = fitted(c);
      }
      break;
    }
    kept.erase(kept.begin() + worst);
  }
  return {.a = solution(0), .b = solution(1), .g = solution(2), .e = solution(3)};
}

}  // namespace trireme::planner
