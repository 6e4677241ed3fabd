// Memory of every stage, item by item and phase by phase: closed form.
#pragma once

#include <memory>
#include <vector>

#include "core/units.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// GiB live at the stage's peak, item by item; they add up to the peak allocated.
struct MemoryItems {
  double parameters = 0, gradients = 0, optimizer = 0, activations = 0, gathered_parameters = 0,
         logits = 0, communication = 0, other = 0;
  [[nodiscard]] double total() const {
    return parameters + gradients + optimizer + activations + gathered_parameters + logits +
           communication + other;
  }
};
// Peak GiB of each phase of a training step on one stage.
struct MemoryPhases {
  double load = 0, forward = 0, backward = 0, first_optimizer_step = 0;
};
struct StageMemory {
  MemoryItems items;
  MemoryPhases phases;
  double reserved_base = 0;    // peak of the main stream's pool and of the side streams' pools, GiB
  double largest_block = 0;    // largest tensor that comes and goes every step, GiB
  double offloaded_bytes = 0;  // of this rank, on the host or its drives
  double host_bytes = 0;       // of them, in the host's memory
  double exchanged_block = 0;  // one tensor gathered or reduced over the tensor ranks, GiB
};
enum class Fit { kFits, kAtRisk, kNo };

struct MemoryEstimate {
  std::vector<StageMemory> stages;  // one a pipeline rank
  std::size_t peak_stage = 0;
  double allocated_gib = 0;  // of the peak stage: torch.cuda.max_memory_allocated
  double reserved_low_gib = 0, reserved_gib = 0, reserved_high_gib = 0;  // max_memory_reserved
  double device_gib = 0;                                                 // nvidia-smi
  double capacity_gib = 0;  // what the allocator can have on this GPU
  double host_gib = 0;      // what offload and loading need of one node's host memory
  double host_capacity_gib = 0;
  Fit fit = Fit::kNo;  // of the GPU, and kNo when the host's memory is too small
};

// Built once a job; holds what does not depend on the plan. One a thread.
class MemoryModel {
 public:
  explicit MemoryModel(const Job& job);
  ~MemoryModel();
  MemoryModel(MemoryModel&&) noexcept;
  MemoryModel& operator=(MemoryModel&&) noexcept;
  MemoryModel(const MemoryModel&) = delete;
  MemoryModel& operator=(const MemoryModel&) = delete;
  // Fills `out` (its vector is reused). Requires: check_plan found no violation.
  void estimate(const Plan& plan, MemoryEstimate& out);
  // The same totals, band and verdict; where it can, `stages` holds the peak one only (peak_stage
  // is then 0). For search, which asks for many plans and looks at no stage.
  void estimate_peak(const Plan& plan, MemoryEstimate& out);
  // As estimate_peak of a plan that may fit. Of one far too large `fit` alone: the totals are of
  // stages that are enough to tell, and above those of every plan that fits.
  void estimate_if_fits(const Plan& plan, MemoryEstimate& out);
  // What one stage's peak takes, as estimate() has it.
  double stage_gib(const Plan& plan, std::int64_t rank);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::planner
