// The constants that measurements add to NCCL's model (topologies/corrections.h), fitted on the
// collectives of one cluster.
#pragma once

#include <vector>

#include "planner/calibrate/collective_fit.h"

namespace trireme::planner {

// Changes profile.networks: for each fabric and network that was measured, the constants that its
// points speak of. Pulled towards their values so far, so that a few points do not carry them off.
void fit_corrections(const std::vector<CollectiveMeasurement>& measured,
                     topologies::Profile& profile);

// Median relative error of the model (tables left aside) over the sizes from `from_bytes` up.
double model_error(const CollectiveMeasurement& measured, const topologies::Profile& profile,
                   double from_bytes);

}  // namespace trireme::planner
