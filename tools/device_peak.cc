#include "tools/device_peak.h"

#include <fmt/format.h>

#include "core/error.h"
#include "topologies/topology_file.h"

namespace trireme::tools {

std::optional<DevicePeak> device_peak(const topologies::Gpu& gpu, topologies::Precision precision) {
  const auto found = gpu.peak_dense.find(precision);
  if (found == gpu.peak_dense.end()) {
    return std::nullopt;
  }
  return DevicePeak{found->second, fmt::format("{}, dense {} of its datasheet: {}", gpu.name,
                                               topologies::precision_name(precision), gpu.source)};
}

std::optional<DevicePeak> device_peak(const std::string& driver_name,
                                      topologies::Precision precision) {
  try {
    return device_peak(topologies::find_gpu(driver_name, "GPU"), precision);
  } catch (const Error&) {  // an unknown card is a normal answer here
    return std::nullopt;
  }
}

}  // namespace trireme::tools
