// Gradients that come and go within a step, as this project's runtime sums them and as others do.
#pragma once

#include "planner/cost/stage_contents.h"
#include "planner/cost/stage_memory.h"

namespace trireme::planner {

// A step of this project's runtime with one backward frees its gradients: where a second one begins
// all are there anyway. Layers that it does not execute are simulated without that.
bool frees_gradients(const Job& job, const Plan& plan);

// Whether products write sums of gradients in the reduction's own type, which needs no copy then.
bool sums_gradients_whole(const Job& job);

// Bytes of gradient that the head's backward adds to a stage: in 16 bits, which wait for their
// reduction; of this project's runtime the sum in fp32 where it is reduced unit by unit or lives in
// the backward alone, since others are there all the time.
double head_gradient_bytes(const StageContext& context, const StageContents& stage);

// Bytes of gradients of a layer's experts that no other rank holds, where a step of one backward
// makes them: they are added up where they stay.
double own_expert_gradients(const StageContext& context, const StageContents& stage);

}  // namespace trireme::planner
