// What a stage has beside states and activations: gathered parameters, buffers for communication,
// workspaces. Bytes.
#pragma once

#include <cstdint>

#include "planner/cost/stage_contents.h"

namespace trireme::planner {

// Parameters gathered at the loss, and while a layer's backward runs.
struct Gathered {
  double at_loss = 0, at_head = 0, in_backward = 0;  // head: its backward
  double unit_gradients = 0;  // 16-bit gradients and the reduction's input of one unit
  double most = 0;  // of ZeRO-3 ever: a table that comes while its bound of layers is there
};
Gathered gathered_of(const StageContext& context, const StageContents& stage);

// Messages and buckets that live through the step.
double communication_of(const StageContext& context, const StageContents& stage, std::int64_t rank);
// DistributedDataParallel's buckets.
double bucket_bytes(const StageContext& context, const StageContents& stage);
double workspaces_of(const StageContext& context, const StageContents& stage);
// Gradients in the optimizer's step; one that runs in backward has one unit's at a time.
double stepped_gradients(const StageContext& context, const StageContents& stage);

}  // namespace trireme::planner
