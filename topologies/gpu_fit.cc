#include "topologies/gpu_fit.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "core/error.h"

namespace trireme::topologies {
namespace {

// Measured products, attention and kernels of card `from` as rates of `gpu`, by the ratio of their
// peaks. False when the datasheet of `from` is not known.
bool scale_tables(const Gpu& gpu, const std::string& from, GpuFit& fit) {
  const auto& presets = gpu_presets();
  const auto other =
      std::ranges::find_if(presets, [&from](const Gpu& preset) { return preset.name == from; });
  if (other == presets.end()) {
    return false;
  }
  const auto ratio_of = [&](Precision precision) {
    return peak_of(gpu, precision) / peak_of(*other, precision);
  };
  for (MatmulPoint& point : fit.matmuls) {
    point.rate = FlopPerSecond(point.rate.value * ratio_of(precision_of(point.precision)));
  }
  const double ratio = ratio_of(Precision::kBf16);
  for (AttentionPoint& point : fit.attention) {
    point.forward = Seconds(point.forward.value / ratio);
    point.backward = Seconds(point.backward.value / ratio);
  }
  const double memory = gpu.memory_bandwidth / other->memory_bandwidth;
  for (auto& [name, kernel] : fit.kernels) {
    kernel.rate = kernel.rate * memory;
  }
  return true;
}

}  // namespace

double peak_of(const Gpu& gpu, Precision precision) {
  const auto known = [&gpu](Precision p) {
    const auto found = gpu.peak_dense.find(p);
    return found == gpu.peak_dense.end() ? 0.0 : found->second.value;
  };
  const double half = std::max(known(Precision::kBf16), known(Precision::kFp16));
  const double single = known(Precision::kFp32) > 0 ? known(Precision::kFp32) : half / 8;
  double peak = known(precision);
  if (peak <= 0 && precision == Precision::kFp4) {
    peak = known(Precision::kFp8);
  }
  if (peak <= 0 && precision != Precision::kFp32 && precision != Precision::kTf32) {
    peak = half;
  }
  if (peak <= 0) {
    peak = single;
  }
  if (peak <= 0) {
    throw Error("GPU " + gpu.name, "no peak rate is known");
  }
  return peak;
}

Precision precision_of(MatmulPrecision precision) {
  switch (precision) {
    case MatmulPrecision::kBf16:
      return Precision::kBf16;
    case MatmulPrecision::kFp16:
      return Precision::kFp16;
    case MatmulPrecision::kFp8:
      return Precision::kFp8;
  }
  return Precision::kBf16;
}

std::optional<MatmulPrecision> matmul_table(const GpuFit& fit, Precision precision) {
  const auto measured = [&fit](MatmulPrecision each) {
    return std::ranges::any_of(
        fit.matmuls, [each](const MatmulPoint& point) { return point.precision == each; });
  };
  std::vector<MatmulPrecision> answering;
  if (precision == Precision::kFp16) {
    answering = {MatmulPrecision::kFp16, MatmulPrecision::kBf16};
  } else if (precision == Precision::kBf16) {
    answering = {MatmulPrecision::kBf16, MatmulPrecision::kFp16};
  } else if (precision == Precision::kFp8) {
    answering = {MatmulPrecision::kFp8};
  }
  const auto found = std::ranges::find_if(answering, measured);
  return found == answering.end() ? std::nullopt : std::optional(*found);
}

GpuFit fit_for(const Gpu& gpu, const Profile& profile) {
  if (const auto found = profile.gpus.find(gpu.name); found != profile.gpus.end()) {
    return found->second;
  }
  // Nearest by compute capability: the same architecture when there is one.
  const GpuFit* nearest = nullptr;
  std::string from;
  int best = 0;
  for (const auto& [name, fit] : profile.gpus) {
    const int distance = std::abs(fit.compute_capability - gpu.compute_capability);
    if (nearest == nullptr || distance < best) {
      nearest = &fit;
      best = distance;
      from = name;
    }
  }
  if (nearest == nullptr) {
    throw Error("profile " + profile.name, "has no GPU");
  }
  const bool calibrated = profile.machine && std::ranges::find(profile.shipped_parts, "gpus") ==
                                                 profile.shipped_parts.end();
  const bool limited =
      gpu.power_watts < gpu.full_power_watts;  // no datasheet says what it sustains
  if (calibrated && (best != 0 || limited) && shipped_profile().gpus.contains(gpu.name)) {
    return shipped_profile().gpus.at(gpu.name);
  }
  GpuFit fit = *nearest;
  if (!calibrated || best != 0 || !scale_tables(gpu, from, fit)) {
    fit.matmuls.clear();
    fit.attention.clear();
    fit.kernels.clear();
  }
  fit.measured = false;
  fit.source =
      (calibrated ? "transferred from " : "carried from ") + from + " (" + nearest->source + ")";
  return fit;
}

}  // namespace trireme::topologies
