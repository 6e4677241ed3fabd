// The constants that measurements add to NCCL's model (topologies/corrections.h), fitted on the
// collectives of one cluster.
#pragma once

#include <string>
#include <vector>

#include "planner/calibrate/collective_fit.h"

namespace trireme::planner {

struct FittedCorrection {
  std::string entry, name;
  double value = 0, standard_error = 0;  // the latter of its logarithm
};

// All constants of every fabric and network that was measured, at once. Priors are the values so
// far, or (`anew`) those of any fabric and network; constants that the points do not feel are left
// out.
std::vector<FittedCorrection> fitted_corrections(const std::vector<CollectiveMeasurement>& measured,
                                                 const topologies::Profile& profile, bool anew);

// The same, from the values so far, laid over profile.networks.
void fit_corrections(const std::vector<CollectiveMeasurement>& measured,
                     topologies::Profile& profile);

// Median relative error of the model (tables left aside) over the sizes from `from_bytes` up.
double model_error(const CollectiveMeasurement& measured, const topologies::Profile& profile,
                   double from_bytes);

}  // namespace trireme::planner
