// The 90 % interval of a predicted step time: ratios of measured to predicted that held over rows
// of sources that no fit saw, by the framework's behaviour; narrower under a profile measured on
// the machine; of the profile's own runs where it has some.
#pragma once

#include "planner/plan/framework.h"
#include "planner/plan/job.h"
#include "topologies/profile.h"

namespace trireme::planner {

struct Interval {
  double low = 0.8, high = 1.25;  // times the predicted seconds
};

Interval interval_of(const Framework& framework, const topologies::Profile& profile);
// Of a job: as wide at least as what jobs with adapters and with offload, which no fit saw, were
// off by; after runs of its own it is theirs.
Interval interval_of(const Job& job);

}  // namespace trireme::planner
