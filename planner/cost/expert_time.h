// What routed experts add to a layer: the tokens that travel to other ranks and back, what of that
// another micro-batch covers, and the host's work. Both readers, the closed form and the times of a
// program's ops, ask here.
#pragma once

#include "planner/cost/behaviour_fit.h"
#include "planner/cost/host_wait.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// Copies of a token's activations (kActivationBytes an element) that leave its rank in one exchange
// with the experts' ranks, its own rank counted as any other: one an expert, or, where the
// framework dispatches once, one for each node (in one node or NVLink domain: for each rank) that
// holds at least one. n places of which each of k experts takes any: n (1 - (1 - 1/n)^k) are
// visited. A router that chooses c of g groups of experts first leaves a token the places that hold
// one of those. Where routing is not even the busiest rank counts. Narrower elements on the way to
// the experts are fewer copies. Requires: plan.expert > 1. Over the network such kernels are slower
// in training than alone, which counts as more copies. Source: DeepEP's own description (normal
// kernels); DeepSeek-V3, section 3.2.2.
double exchanged_copies(const Job& job, const Plan& plan, bool to_experts);

inline constexpr double kOverlapSteps = 200;
// Share of a rank's passes that run beside one of another micro-batch: those of the warm-up have no
// backward to run beside, nor as many backwards at the end a forward. Of Megatron's interleaved
// order, 2 (p - 1 - r) + (v - 1) p chunks of rank r, the mean over ranks; without a pipeline the
// first. In [0, 1], to one of kOverlapSteps, so that plans share their layers' times.
double overlapped_share(std::int64_t micro_batches, std::int64_t chunks, std::int64_t stages);
// Likewise where chunks lie in a V: p passes of each rank stand alone, and so do the `split` passes
// whose backward is split. ZB-V, which splits all of them, pairs none.
double overlapped_share_in_v(std::int64_t micro_batches, std::int64_t split, std::int64_t stages);
double overlapped_share(const Plan& plan);

// Of `exchange` seconds of a layer's exchanges, forward and backward, what is left exposed beside
// `compute` seconds of its kernels: what they do not cover, and the share by which they get longer.
double exposed_exchange(const BehaviourFit& fit, double exchange, double compute);

// Host seconds of a sparse layer beyond the launches of its kernels, on a rank of one in
// `expert_ranks` of its experts: as they were counted, else the framework's, a third of them in
// forward; what a CUDA graph launches is not among them.
PassPair expert_host_seconds(const Job& job, const BehaviourFit& fit, std::int64_t expert_ranks,
                             double launch_seconds);

}  // namespace trireme::planner
