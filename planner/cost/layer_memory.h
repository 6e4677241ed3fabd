// Activation bytes of one layer for one micro-batch on one rank, under a plan's recompute.
#pragma once

#include <cstdint>

#include "planner/cost/rank_parameters.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

struct LayerMemory {
  double whole = 0;  // everything backward needs
  double kept = 0;  // what stays from forward to backward: whole, or less under selective recompute
  double checkpoint = 0;  // the input alone: a layer under full recompute
  double inputs = 0;      // of its linear layers
  double weight_gradient =
      0;                 // what a postponed weight gradient needs: inputs and output gradients
  double transient = 0;  // live beyond `whole` at the worst operation of its backward
};

// `layer` names a layer of the kind in question (dense or with experts). `parameters` is that
// kind's.
LayerMemory layer_memory(const Job& job, const Plan& plan, std::int64_t layer,
                         const LayerParameters& parameters);
// Whether a full recompute repeats a dense MLP by itself once more, in as many parts as the loss
// (ALST): where it names the MLP and the loss runs in parts.
bool has_tiled_mlp(const Job& job, const Plan& plan, bool sparse);
// Weights stay in their stored type and are cast where they are used (torch.autocast): fp32
// parameters that nobody gathers, or that are gathered in fp32 (FSDP without a mixed precision of
// its own).
bool uses_autocast(const Job& job, const Plan& plan);

}  // namespace trireme::planner
