#include "planner/plan/framework.h"

namespace trireme::planner {

bool overlaps_gradient_reduction(const Framework& framework) {
  return framework.overlap_grad_reduce &&
         framework.implementation != models::Implementation::kClassicMegatron;
}

bool overlaps_parameter_gather(const Framework& framework) {
  return framework.overlap_param_gather &&
         framework.implementation != models::Implementation::kClassicMegatron;
}

bool overlaps_tensor_backward(const Framework& framework, bool sequence_parallel) {
  const bool classic = framework.implementation == models::Implementation::kClassicMegatron;
  return framework.tp_backward_overlap && (sequence_parallel || !classic);
}

bool is_megatron(const Framework& framework) {
  return framework.sharder == Sharder::kBuffers || framework.sharder == Sharder::kMegatronFsdp;
}

bool is_torch(const Framework& framework) {
  return framework.sharder == Sharder::kFsdp1 || framework.sharder == Sharder::kFsdp2;
}

bool sums_in_place(const Framework& framework) {
  return framework.states == StateLayout::kFlatBuffers && framework.gradient_accumulation_fusion;
}

std::string full_name(const Framework& framework) {
  return framework.version.empty() ? framework.name : framework.name + "@" + framework.version;
}

}  // namespace trireme::planner
