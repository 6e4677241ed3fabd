// Part of pass 2: the tensors of a layer's router, shared expert and experts.
#pragma once

#include <string>
#include <vector>

#include "models/transformer.h"
#include "planner/lower/parameters.h"
#include "planner/plan/shape.h"

namespace trireme::planner::lowering {

// One tensor to be placed; `split` says how the tensor group, of an expert's those that share it,
// cuts it.
struct Tensor {
  std::string name;
  std::int64_t rows = 0, columns = 1;
  Split split = Split::kNone;
  std::int64_t local_rows = 0, local_columns = 1;
  Slot* slot = nullptr;                            // grows by this tensor
  std::int64_t expert_first = 0, expert_step = 0;  // core/program.h
};

// Added to `split` and `whole`: the shared expert's, cut over `ranks`, and the router's.
void add_router_tensors(const models::Transformer& model, const std::string& prefix,
                        std::int64_t ranks, LayerSlots& slots, std::vector<Tensor>& split,
                        std::vector<Tensor>& whole);
// The first of a rank's experts' tensors, expert by expert: what goes in, then what comes out.
std::vector<Tensor> expert_tensors(const models::Transformer& model, const std::string& prefix,
                                   const ExpertRanks& ranks, LayerSlots& slots);

}  // namespace trireme::planner::lowering
