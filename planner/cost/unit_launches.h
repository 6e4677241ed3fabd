// What the host does around the gather and the reduction of a unit, in launches of a kernel.
#pragma once

#include "planner/plan/job.h"

namespace trireme::planner {

struct UnitLaunches {
  double gather = 0, reduce = 0;
  double hooks = 0;  // of one micro-batch, half of them in its forward
};

// Of `units` units with `layers` layers in all; zero where the framework names none. Source:
// PyTorch's FSDP2 in code: copies in and out, events, parameters swapped; with tensor parallelism
// every parameter tensor is a DTensor over two meshes that is wrapped again each time.
UnitLaunches unit_launches(const Job& job, bool tensor_parallel, double units, double layers);

}  // namespace trireme::planner
