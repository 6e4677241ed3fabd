// One layout's memory and time together: what `estimate` prints and `plan` ranks.
#pragma once

#include "planner/cost/memory.h"
#include "planner/cost/time.h"

namespace trireme::planner {

struct Throughput {
  double tokens_per_second = 0, tokens_per_second_per_gpu = 0, model_tflops_per_gpu = 0, mfu = 0,
         hfu = 0, mfu_full_attention = 0, peak_tflops = 0;
};
struct Estimate {
  Plan plan;
  MemoryEstimate memory;
  TimeEstimate time;
  Throughput throughput;
};

// Built once a job and thread; see MemoryModel and TimeModel.
class Estimator {
 public:
  explicit Estimator(const Job& job);
  // Requires: check_plan found no violation.
  void estimate(const Plan& plan, Estimate& out);
  // The rates of a step that takes `time`; the simulator's steps too.
  [[nodiscard]] Throughput throughput(const TimeEstimate& time) const;
  MemoryModel& memory() { return memory_; }
  TimeModel& time() { return time_; }

 private:
  MemoryModel memory_;
  TimeModel time_;
  double half_causal_flop_per_step_ = 0, full_flop_per_step_ = 0, peak_ = 0, gpus_ = 0, tokens_ = 0;
};

}  // namespace trireme::planner
