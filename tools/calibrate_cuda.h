// The measuring side of `trireme calibrate`: one process a GPU. In a build without CUDA it refuses.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "core/microbenchmarks.h"
#include "tools/program.h"

namespace trireme::tools {

struct Measurement {
  bool quick = false;
  std::optional<std::int64_t> gpus;  // empty: all that are visible
  // Called in every rank's process before anything is measured; throws Error when the machine
  // cannot be calibrated, so that no minutes are lost.
  std::function<void(const MachineFingerprint&)> check;
  // Called in the process of rank 0 with its points; returns the exit code.
  std::function<int(const Microbenchmarks&)> finish;
};

// Throws Error of kind kMissingMachine when this build or this machine has no CUDA.
int measure_on_gpus(const Measurement& measurement, const Console& console);

}  // namespace trireme::tools
