// The efficiency surface of matrix products, one for each precision that was measured: constants of
// the model, and a table of what the model misses.
#pragma once

#include <vector>

#include "core/microbenchmarks.h"
#include "topologies/cluster.h"
#include "topologies/profile.h"

namespace trireme::planner {

// Fits the constants and tables of `fit` on `samples`, and puts it into `profile` as the fit of the
// cluster's GPU. Constants of a precision need three samples; the precisions of `samples` must have
// no table in `fit`.
void fit_matmuls(const std::vector<MatmulSample>& samples, const topologies::Cluster& cluster,
                 topologies::Profile& profile, topologies::GpuFit& fit);

// The same for the runtime's grouped products of experts; all samples become its table.
void fit_grouped(const std::vector<GroupedSample>& samples, const topologies::Cluster& cluster,
                 topologies::Profile& profile, topologies::GpuFit& fit);

}  // namespace trireme::planner
