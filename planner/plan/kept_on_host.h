// Which layers' activations lie on the host between forward and backward, in this project's
// runtime.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "planner/plan/offload.h"

namespace trireme::planner {

// Of a chunk's layers the first ones; not its last one, whose backward may come at once.
inline std::int64_t layers_on_host(const Offload& offload, std::int64_t layers) {
  if (offload.activations == OffloadTo::kNone) {
    return 0;
  }
  const double share = offload.activation_share * static_cast<double>(layers);
  return std::min(static_cast<std::int64_t>(std::ceil(share)),
                  std::max<std::int64_t>(0, layers - 1));
}

}  // namespace trireme::planner
