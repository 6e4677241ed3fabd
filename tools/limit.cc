#include "tools/limit.h"

#include "models/transformer.h"

namespace trireme::tools {

std::vector<LimitItem> limit_of(const planner::Job& job, const planner::Estimate& estimate) {
  std::vector<LimitItem> items;
  const auto gpus = static_cast<double>(job.cluster.gpus);
  const planner::Throughput& rates = estimate.throughput;
  if (rates.peak_tflops > 0) {
    items.push_back({"model_flop_at_peak",
                     estimate.time.step_seconds * rates.model_tflops_per_gpu / rates.peak_tflops});
  }
  // Adam reads gradient, master and moments, and writes master, moments and the parameter.
  const planner::Framework& f = job.framework;
  const double moments =
      job.optimizer == planner::Optimizer::kSgd ? f.sgd_moment_bytes : f.moment_bytes;
  const double bytes = f.gradient_bytes + 2 * f.master_bytes + 2 * moments + f.parameter_bytes;
  items.push_back(
      {"optimizer_states_once", bytes * static_cast<double>(models::parameter_count(job.model)) /
                                    gpus / job.cluster.gpu.memory_bandwidth.value});
  return items;
}

}  // namespace trireme::tools
