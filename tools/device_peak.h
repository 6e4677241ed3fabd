// The datasheet rate behind the MFU of a run, found by the name that the driver gives the card.
#pragma once

#include <optional>
#include <string>

#include "core/units.h"
#include "topologies/cluster.h"

namespace trireme::tools {

struct DevicePeak {
  FlopPerSecond rate;  // dense, of one device
  std::string source;  // which card's datasheet, in words
};

// Of a card as its driver names it ("NVIDIA H100 80GB HBM3"). Nothing when topologies/gpus.json has
// no such card, or the card has no rate at this precision.
std::optional<DevicePeak> device_peak(const std::string& driver_name,
                                      topologies::Precision precision);
// Of a card that is described already.
std::optional<DevicePeak> device_peak(const topologies::Gpu& gpu, topologies::Precision precision);

}  // namespace trireme::tools
