#include "topologies/gpu_fit.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"

namespace trireme::topologies {
namespace {

// What the measured cards say of products where no power limit holds them back: a large product on
// A100 reaches 0.93 of the peak (aiconfigurator's tables of cuBLAS).
constexpr double kUnlimitedShare = 0.93;

// Generations of tensor cores in the order of their instructions, so that neighbours are alike:
// workstation cards of 2025 have Ada's instructions, not those of B200.
struct Generation {
  int compute_capability;
  double place;
};
constexpr Generation kGenerations[] = {{70, 0},   {75, 1},   {80, 2},   {86, 2.5}, {89, 3},
                                       {120, 3},  {121, 3},  {90, 4},   {100, 5},  {103, 5},
                                       {908, 20}, {910, 21}, {942, 22}, {950, 23}};

double place_of(int compute_capability) {
  const Generation* nearest = &kGenerations[0];
  for (const Generation& one : kGenerations) {
    if (std::abs(one.compute_capability - compute_capability) <
        std::abs(nearest->compute_capability - compute_capability)) {
      nearest = &one;
    }
  }
  return nearest->place;
}

double log_ratio(double one, double other) {
  return one > 0 && other > 0 ? std::abs(std::log(one / other)) : 0.0;
}

// No datasheet says what a card sustains under another power limit than its own.
bool is_limited(const Gpu& gpu) {
  return gpu.power_watts < gpu.full_power_watts;
}

const Gpu* preset_of(const std::string& name) {
  const auto& presets = gpu_presets();
  const auto found = std::ranges::find(presets, name, &Gpu::name);
  return found == presets.end() ? nullptr : &*found;
}

struct NearestCard {
  std::string name;
  const Gpu* card = nullptr;  // its datasheet; none: not known
};

// By architecture, then power and memory: a generation weighs as much as a factor of e of either.
std::optional<NearestCard> nearest_card(const Gpu& gpu, const Profile& profile) {
  std::optional<NearestCard> nearest;
  double best = 0;
  for (const auto& [name, fit] : profile.gpus) {
    const Gpu* card = preset_of(name);
    double distance = std::abs(place_of(fit.compute_capability) - place_of(gpu.compute_capability));
    if (card != nullptr) {
      distance += log_ratio(gpu.power_watts, card->power_watts) +
                  log_ratio(gpu.memory_bandwidth.value, card->memory_bandwidth.value);
      distance += is_limited(*card) ? 100 : 0;
    }
    if (!nearest || distance < best) {
      nearest = {name, card};
      best = distance;
    }
  }
  return nearest;
}

double sustained_share(const Gpu& gpu, Precision precision) {
  const auto found = gpu.sustained_matmul.find(precision);
  return found == gpu.sustained_matmul.end() ? 0.0 : found->second.value / peak_of(gpu, precision);
}

// How much more of its peak than `card` does `gpu` sustain in products, where `card` sustains
// `share`: as published for both, else by the power that each peak FLOP/s has. Where power limits
// it, the clock is near its lowest voltage and follows the watts in proportion: H200 NVL sustains
// 0.82 of H200 at 0.86 of its watts, a 500 W H100 0.69 of H100 at 0.71.
double share_ratio(const Gpu& gpu, const Gpu& card, double share) {
  const double own = sustained_share(gpu, Precision::kBf16);
  const double other = sustained_share(card, Precision::kBf16);
  if (own > 0 && other > 0) {
    return own / other;
  }
  if (gpu.power_watts <= 0 || card.power_watts <= 0) {
    return 1;
  }
  const double watts = gpu.power_watts / peak_of(gpu, Precision::kBf16);
  const double other_watts = card.power_watts / peak_of(card, Precision::kBf16);
  const double reached = own > 0 ? own : kUnlimitedShare;  // no more than was published of it
  return std::min(watts / other_watts, std::max(1.0, reached / share));
}

// Measured products, attention and kernels as rates of `gpu`.
void scale_tables(const Gpu& gpu, const Gpu& card, double ratio, GpuFit& fit) {
  const auto ratio_of = [&](Precision precision) {
    return ratio * peak_of(gpu, precision) / peak_of(card, precision);
  };
  for (MatmulPoint& point : fit.matmuls) {
    point.rate = point.rate * ratio_of(precision_of(point.precision));
  }
  for (GroupedPoint& point : fit.grouped) {
    point.rate = point.rate * ratio_of(Precision::kBf16);
  }
  for (AttentionPoint& point : fit.attention) {
    point.forward = point.forward * (1 / ratio_of(Precision::kBf16));
    point.backward = point.backward * (1 / ratio_of(Precision::kBf16));
  }
  const double memory = gpu.memory_bandwidth / card.memory_bandwidth;
  for (auto& [name, kernel] : fit.kernels) {
    kernel.rate = kernel.rate * memory;
  }
}

// The constants of the nearest card as this card's. Tables speak of one layout of multiprocessors.
GpuFit carried(const Gpu& gpu, const NearestCard& nearest, const GpuFit& other) {
  GpuFit fit = other;
  fit.measured = false;
  double ratio = 1;
  if (nearest.card != nullptr) {
    const auto products = fit.constants.find("matmul_efficiency");
    ratio = products == fit.constants.end() ? 1 : share_ratio(gpu, *nearest.card, products->second);
    for (auto& [name, share] : fit.constants) {
      if (name != "memory_efficiency" && name.ends_with("_efficiency")) {
        share = std::min(share * ratio, std::max(share, kUnlimitedShare));
      }
    }
  }
  if (nearest.card == nullptr || nearest.card->compute_capability != gpu.compute_capability ||
      nearest.card->multiprocessors != gpu.multiprocessors) {
    fit.matmuls.clear();
    fit.grouped.clear();
    fit.attention.clear();
    fit.kernels.clear();
  } else {
    scale_tables(gpu, *nearest.card, ratio, fit);
  }
  return fit;
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
  const std::optional<NearestCard> nearest = nearest_card(gpu, profile);
  if (!nearest) {
    throw Error("profile " + profile.name, "has no GPU");
  }
  const bool calibrated = profile.machine && std::ranges::find(profile.shipped_parts, "gpus") ==
                                                 profile.shipped_parts.end();
  const GpuFit& other = profile.gpus.at(nearest->name);
  if (calibrated && (other.compute_capability != gpu.compute_capability || is_limited(gpu))) {
    return fit_for(gpu, shipped_profile());
  }
  GpuFit fit = carried(gpu, *nearest, other);
  fit.source = (calibrated ? "transferred from " : "carried from ") + nearest->name + " (" +
               other.source + ")";
  return fit;
}

}  // namespace trireme::topologies
