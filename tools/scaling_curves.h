// How a job scales over GPUs: the same batch on more of them (strong), and a batch that grows with
// them (weak), each size planned again, with the knee and the textbook's F19 beside.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/whatif_cases.h"

namespace trireme::tools {

struct ScalingPoint {
  std::int64_t gpus = 0, global_batch = 0;
  WhatIfCase answer = {};  // without an estimate: no layout, see its notes
  double speedup = 0;      // tokens per second over the base's
  double efficiency = 0;   // tokens per second and GPU over the base's
  double f19_seconds = 0;  // F19's step: the base's compute and communication, scaled
};
struct ScalingCurve {
  std::vector<ScalingPoint> points;       // by GPUs, ascending
  std::optional<std::int64_t> knee_gpus;  // see knee_of; none: still before it, or no point
};
struct ScalingCurves {
  ScalingCurve strong, weak;
};

// A size and what it does.
struct Speed {
  double gpus = 0, rate = 0;
};
// Index of the knee: where efficiency over time, rate^2 / gpus, is largest; from there on 1 % more
// GPUs buy less than 0.5 % more speed (Eager, Zahorjan, Lazowska: Speedup versus efficiency in
// parallel systems, IEEE Transactions on Computers 38, 1989). None when that is the last one: more
// GPUs may still pay. Requires: gpus ascending.
std::optional<std::size_t> knee_of(const std::vector<Speed>& speeds);

// "64,128,256", or "auto": from a quarter of `gpus` to eight times as many, doubling; ascending and
// each once. Throws Error.
std::vector<std::int64_t> parse_scaling(const std::string& text, std::int64_t gpus);

// Points of the weak curve whose batch is no whole number are left out.
ScalingCurves scaling_curves(const WhatIfRequest& request, const WhatIfCase& base,
                             const std::vector<std::int64_t>& sizes, int threads);

}  // namespace trireme::tools
