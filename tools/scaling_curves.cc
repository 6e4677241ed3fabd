#include "tools/scaling_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"
#include "planner/cost/formulas.h"

namespace trireme::tools {
namespace {

constexpr std::size_t kMostSizes = 64;

std::vector<Change> changes_of(const ScalingPoint& point) {
  return {{"gpus", fmt::format("{}", point.gpus)},
          {"global_batch", fmt::format("{}", point.global_batch)}};
}

// The base's compute shrinks with the GPUs and grows with the batch; the rest of its step is what
// F19 calls communication, which grows with log2 of the GPUs.
double f19_of(const WhatIfCase& base, const ScalingPoint& point) {
  const planner::TimeEstimate& time = base.estimate->time;
  const auto gpus = static_cast<double>(base.job.cluster.gpus);
  const double batches =
      static_cast<double>(point.global_batch) / static_cast<double>(base.job.global_batch);
  const double communication =
      gpus > 1 ? (time.step_seconds - time.exposed.compute) / std::log2(gpus) : 0;
  return planner::f19_fsdp_time(time.exposed.compute * gpus * batches, communication,
                                static_cast<double>(point.gpus));
}

void fill_curve(const WhatIfCase& base, ScalingCurve& curve) {
  std::vector<Speed> speeds;
  for (ScalingPoint& point : curve.points) {
    point.f19_seconds = f19_of(base, point);
    if (point.answer.estimate) {
      const planner::Throughput& now = point.answer.estimate->throughput;
      const planner::Throughput& before = base.estimate->throughput;
      point.speedup = now.tokens_per_second / before.tokens_per_second;
      point.efficiency = now.tokens_per_second_per_gpu / before.tokens_per_second_per_gpu;
      speeds.push_back({static_cast<double>(point.gpus), now.tokens_per_second});
    }
  }
  if (const auto knee = knee_of(speeds)) {
    curve.knee_gpus = std::llround(speeds[*knee].gpus);
  }
}

}  // namespace

std::optional<std::size_t> knee_of(const std::vector<Speed>& speeds) {
  const auto power = [](const Speed& speed) { return speed.rate * speed.rate / speed.gpus; };
  const auto best =
      std::max_element(speeds.begin(), speeds.end(),
                       [&](const Speed& a, const Speed& b) { return power(a) < power(b); });
  if (best == speeds.end() || best + 1 == speeds.end()) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(best - speeds.begin());
}

std::vector<std::int64_t> parse_scaling(const std::string& text, std::int64_t gpus) {
  std::vector<std::int64_t> sizes;
  if (text == "auto") {
    for (std::int64_t size = std::max<std::int64_t>(gpus / 4, 1); size <= 8 * gpus; size *= 2) {
      sizes.push_back(size);
    }
  } else {
    sizes = parse_counts(text, "--scaling");
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  if (sizes.empty() || sizes.front() < 1 || sizes.size() > kMostSizes) {
    throw Error("--scaling", fmt::format("'{}' is wrong; 1 to {} numbers of GPUs such as "
                                         "64,128,256 would be right, or auto",
                                         text, kMostSizes));
  }
  return sizes;
}

ScalingCurves scaling_curves(const WhatIfRequest& request, const WhatIfCase& base,
                             const std::vector<std::int64_t>& sizes, int threads) {
  ScalingCurves curves;
  for (const std::int64_t gpus : sizes) {
    curves.strong.points.push_back({.gpus = gpus, .global_batch = base.job.global_batch});
    const std::int64_t grown = base.job.global_batch * gpus;
    if (grown % base.job.cluster.gpus == 0) {
      curves.weak.points.push_back({.gpus = gpus, .global_batch = grown / base.job.cluster.gpus});
    }
  }
  std::vector<ScalingPoint*> points;
  for (ScalingCurve* curve : {&curves.strong, &curves.weak}) {
    for (ScalingPoint& point : curve->points) {
      points.push_back(&point);
    }
  }
  parallel_for(threads, points.size(), [&](std::size_t, std::size_t at) {
    points[at]->answer = try_case(request, base, changes_of(*points[at]));
  });
  fill_curve(base, curves.strong);
  fill_curve(base, curves.weak);
  return curves;
}

}  // namespace trireme::tools
