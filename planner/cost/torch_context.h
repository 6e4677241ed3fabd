// PyTorch's context parallelism (torch/distributed/tensor/experimental/_attention.py): the keys and
// values of all ranks come by one gather beside the attention over a rank's own, or round a ring;
// the result of each step is merged with those before in fp32, by eager operations, and the
// gradients of keys and values go on round the ring in fp32.
#pragma once

#include "core/units.h"
#include "planner/plan/framework.h"
#include "topologies/op_cost.h"

namespace trireme::planner {

// Of layers that are PyTorch's own.
bool has_torch_context(const Framework& framework);

// Bytes of a travelling gradient's element over those of a key's.
inline constexpr std::int64_t kTorchGradientWidth = 2;

struct TorchContext {
  double ranks = 1;
  double output = 0;  // elements of this rank's attention output
  double keys = 0;    // of its keys and values
};
// What all steps of a pass move through the memory besides attention itself, on the last rank,
// which merges whole outputs in every step.
Bytes torch_context_traffic(const TorchContext& shape, topologies::Pass pass);

}  // namespace trireme::planner
