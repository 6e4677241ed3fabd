// Adapters beside frozen weights (LoRA): how many elements they have, what they and the frozen
// layers keep for backward, and the work that they add. Source: Hu et al. 2021; PEFT's Linear
// layers for the order of their operations.
#pragma once

#include "models/work.h"
#include "planner/cost/rank_parameters.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// Elements on one rank.
struct AdapterElements {
  double dense_layer = 0;   // of one layer without experts
  double sparse_layer = 0;  // of one layer with experts, beside those of the routed experts
  double experts = 0;       // of the routed experts of one layer
  double head = 0;
};
AdapterElements adapter_elements(const Job& job, const ParameterSplit& split);

// Whether backward reads this kept tensor (models/kept.cc) where the linear layers are frozen:
// their inputs are read by adapters only.
bool is_kept_beside_frozen(const Training& training, models::Kept item);
// Bytes a token that the adapters of one layer keep of their own: the inputs that dropout wrote.
double adapter_kept_bytes(const Job& job, const Plan& plan, bool sparse);
// Of the routed experts' adapters, which see as many rows as the experts: told by what these keep
// before their last product (two bytes an element; 0 for every other item).
double expert_adapter_kept_bytes(const Job& job, const Plan& plan, const models::KeptItem& item);

// Whether backward ends inside this layer: adapters are the lowest that is trained.
bool ends_early(const Job& job, std::int64_t layer);
// Takes the weight gradients of the frozen linear layers out of a layer's work, and adds the
// adapters' passes and the dequantisation of the base. Layers below all that is trained have no
// backward and no adapters.
void freeze_layer(const Job& job, const Plan& plan, std::int64_t layer, models::LayerWork& work);
// Whether the token table is trained: with the layers above it all, or beside adapters by wish.
bool trains_table(const Training& training);
// The same as freeze_layer of the embedding and the head.
void freeze_ends(const Job& job, models::LayerWork& embedding, models::LayerWork& head);

}  // namespace trireme::planner
