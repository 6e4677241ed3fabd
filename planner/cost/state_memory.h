// Bytes of parameters, gradients and optimizer states of one rank.
#pragma once

#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// Bytes per element that a rank computes with, before the elements are multiplied in: `shards`
// ranks share a copy of what the plan shards. Sources: planner/frameworks.json, each framework's
// optimizer read in code.
struct StateBytes {
  double parameters = 0;
  double gradients = 0;  // once they exist
  double optimizer = 0;  // main copies and moments
  double main_copy = 0;  // the part of `optimizer` that exists before the first step
  double step = 0;       // fp32 gradients that exist during the optimizer step only
};
StateBytes state_bytes(const Job& job, const Plan& plan, double shards);

// Bytes of an element of DeepSpeed's sums of gradients: fp32 under fp32, else of a type of their
// own (data_types.grad_accum_dtype), which the second stage does not ask for: it adds what the
// reductions left (stage_1_and_2.py use_grad_accum_attribute, all_grad_tensors).
double zero_sum_bytes(const Job& job, Sharding sharding);
// Elements that ZeRO-3's step takes at once.
double zero_sub_group(const Job& job);
// Bytes of DeepSpeed's copies at the step of `elements` that a rank updates, `here` of them on the
// GPU. ZeRO-3 lays a sub-group's gradients together, and casts those that are no fp32 yet
// (runtime/zero/stage3.py _prepare_fp32_grad_for_sub_group, sub_group_size); weights of ZeRO-1 and
// 2 on their way back from an optimizer on the host are cast on the GPU.
double zero_step_copies(const Job& job, const Plan& plan, double elements, double here);

// The same of trained elements beside frozen weights.
StateBytes adapter_state_bytes(const Job& job, const Plan& plan, double shards);
// Bytes of one frozen element of a linear layer.
double frozen_state_bytes(const Job& job, const Plan& plan, double shards);

// Bytes of one element as computed with and as gathered.
double compute_bytes(const Job& job);

}  // namespace trireme::planner
