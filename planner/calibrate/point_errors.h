// Raw points of micro-benchmarks beside what a profile predicts for them.
#pragma once

#include <optional>
#include <string_view>

#include "core/microbenchmarks.h"
#include "topologies/op_cost.h"

namespace trireme::planner {

double predicted_seconds(const MatmulSample& sample, const topologies::OpCost& cost);
double predicted_seconds(const GroupedSample& sample, const topologies::OpCost& cost);
double predicted_seconds(const AttentionSample& sample, topologies::Pass pass,
                         const topologies::OpCost& cost);
double predicted_seconds(const PassSample& sample, const topologies::OpCost& cost);
// None: the profile has no fit of this kernel.
std::optional<double> predicted_seconds(const KernelSample& sample, const topologies::OpCost& cost);

bool is_fused(const AttentionSample& sample);     // else unfused, or none
bool is_portable(const AttentionSample& sample);  // FlashAttention-2 as PyTorch ships it
std::string_view layout_name(MatmulLayout layout);

}  // namespace trireme::planner
