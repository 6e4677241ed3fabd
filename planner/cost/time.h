// Step time, category by category, with overlap as the framework has it: closed form.
#pragma once

#include <memory>
#include <vector>

#include "core/units.h"
#include "planner/plan/balance.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// Seconds of *exposed* time: the items add up to the step.
struct TimeItems {
  double compute = 0, tensor_parallel = 0, context_parallel = 0, expert_parallel = 0,
         pipeline_bubble = 0, pipeline_p2p = 0, data_parallel = 0, optimizer = 0, offload = 0,
         other = 0;
  [[nodiscard]] double total() const {
    return compute + tensor_parallel + context_parallel + expert_parallel + pipeline_bubble +
           pipeline_p2p + data_parallel + optimizer + offload + other;
  }
};

struct TimeEstimate {
  TimeItems exposed;
  double step_seconds = 0;
  double low_seconds = 0, high_seconds = 0;  // 90 % interval
  double hidden_communication_seconds = 0;   // overlapped
  double recomputed_flop_share = 0;          // recomputed FLOP over model FLOP, for HFU
};

// Built once a job; remembers layer and collective times by their keys. One a thread.
class TimeModel {
 public:
  explicit TimeModel(const Job& job);
  ~TimeModel();
  TimeModel(TimeModel&&) noexcept;
  TimeModel& operator=(TimeModel&&) noexcept;
  TimeModel(const TimeModel&) = delete;
  TimeModel& operator=(const TimeModel&) = delete;
  // Requires: check_plan found no violation.
  void estimate(const Plan& plan, TimeEstimate& out);
  // A time that no placement and no sharding of this plan undercuts: its pipeline with the inner
  // axes on neighbouring ranks, free transfers between stages and free data parallelism.
  double lower_bound(const Plan& plan);
  // As lower_bound, with the plan's axes placed as its order says.
  double placed_bound(const Plan& plan);
  // As placed_bound, with the gathers and reductions of the stage that has most to do.
  double sharded_bound(const Plan& plan);
  // Per-stage forward, input-gradient, weight-gradient and recompute seconds of one micro-batch:
  // what the simulator, explain and the tests look at.
  struct StageTimes {
    double forward = 0, input_gradient = 0, weight_gradient = 0, recompute = 0;
    double exposed_tensor_parallel_forward = 0, exposed_tensor_parallel_backward = 0;
  };
  std::vector<StageTimes> stage_times(const Plan& plan);
  // Forward and backward seconds of one micro-batch of each part of the model, which stages are
  // balanced by.
  PartCosts part_seconds(const Plan& plan);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::planner
