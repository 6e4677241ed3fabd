// The runtime's own memory-bound kernels: a fixed cost and a rate for each that was measured.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/microbenchmarks.h"
#include "topologies/profile.h"

namespace trireme::planner {

// seconds = fixed + traffic / rate by robust non-negative least squares on relative errors. Kernels
// measured at fewer than two sizes, or whose time does not grow with their traffic, are left out.
std::map<std::string, topologies::KernelFit> fit_kernels(const std::vector<KernelSample>& samples);

}  // namespace trireme::planner
