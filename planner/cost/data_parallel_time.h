// Gradient reduction, parameter gathers and the optimizer step of one rank: what they take and what
// stays exposed beside compute, as each framework overlaps them (training_systems 2.2 to 2.4, 3.3).
#pragma once

#include "planner/cost/behaviour_fit.h"
#include "planner/cost/collectives.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"
#include "topologies/op_cost.h"

namespace trireme::planner {

// The stage that the data-parallel time is taken for.
struct DataParallelInput {
  double dense_parameters = 0;  // on this rank, before sharding over data
  double expert_parameters = 0;
  double root_parameters = 0;       // of them, embedding, head and final norm: FSDP's root unit
  double embedding_parameters = 0;  // of the root's
  double tied_head_parameters = 0;  // of the embedding's: its table, when the head here uses it too
  double trained_share = 1;         // of dense parameters: what is reduced and stepped
  double trained_expert_share = 1;
  double gathered_share = 1;   // bytes of a gathered element over parameter_bytes
  double weight_gradient = 0;  // of one micro-batch's backward
  double units = 1;            // FSDP units (layers over --fsdp-unit) on this rank
  double forward = 0;          // one micro-batch through this rank
  double backward = 0;         // recompute included
  double embedding_compute = 0, head_forward = 0, head_backward = 0;  // of them, at the ends
};

struct DataParallelTime {
  double exposed = 0;  // once a step
  double hidden = 0;
  double per_micro_batch_forward = 0;  // added to every micro-batch's forward (exposed gathers)
  double per_micro_batch_backward = 0;
  // This project's runtime: casts before gathers and sums before scatters, among the other compute.
  double compute_forward = 0, compute_backward = 0;  // of a micro-batch
  double compute_once = 0;                           // of a step
};

class DataParallelTimer {
 public:
  // `memory_rate`: bytes per second that streaming kernels reach.
  DataParallelTimer(const Job& job, const BehaviourFit& fit, Collectives& collectives,
                    double memory_rate)
      : job_(job), fit_(fit), collectives_(collectives), memory_rate_(memory_rate) {}

  struct Groups {
    topologies::GroupShape shard, replica, expert_shard;
    double reduce_bytes = 4, parameter_bytes = 2;
  };
  [[nodiscard]] Groups groups_of(const Plan& plan) const;
  [[nodiscard]] DataParallelTime measure(const Plan& plan, const DataParallelInput& in,
                                         const Groups& groups) const;

 private:
  [[nodiscard]] DataParallelTime reduce_whole(const Plan& plan, const DataParallelInput& in,
                                              const Groups& groups) const;
  [[nodiscard]] DataParallelTime gather_units(const Plan& plan, const DataParallelInput& in,
                                              const Groups& groups) const;
  // This project's runtime (own_data_parallel.cc).
  [[nodiscard]] DataParallelTime own_whole(const Plan& plan, const DataParallelInput& in,
                                           const Groups& groups) const;
  [[nodiscard]] double own_gather(const Groups& groups, double parameters) const;
  [[nodiscard]] double own_cast(const Groups& groups, double parameters) const;
  [[nodiscard]] double own_sum(const Plan& plan, const Groups& groups, double parameters) const;
  [[nodiscard]] double own_scatter(const Groups& groups, double parameters) const;
  [[nodiscard]] double own_experts(topologies::Collective collective, const Groups& groups,
                                   double parameters) const;
  [[nodiscard]] DataParallelTime own_units(const Plan& plan, const DataParallelInput& in,
                                           const Groups& groups) const;
  [[nodiscard]] double copies(const Plan& plan, const DataParallelInput& in, bool reshard,
                              bool reduce_each) const;
  [[nodiscard]] double beside(double communication, double compute, double tail,
                              DataParallelTime& time) const;

  const Job& job_;
  const BehaviourFit& fit_;
  Collectives& collectives_;
  double memory_rate_;
};

// Seconds of the optimizer step: bytes of the local shard's states and of the whole gradients
// through memory.
double optimizer_seconds(const Job& job, const Plan& plan, double parameters,
                         const topologies::OpCost& cost);

// Bytes per second of passes over parameters and gradients: this project's cast where the profile
// measured it, else what streaming kernels reach.
double state_rate(const Job& job, const topologies::OpCost& cost);

}  // namespace trireme::planner
