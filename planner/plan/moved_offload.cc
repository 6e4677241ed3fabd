#include "planner/plan/moved_offload.h"

namespace trireme::planner {

Offload moved_together(const Framework& framework, Offload offload) {
  if (framework.sharder == Sharder::kZero && offload.optimizer != OffloadTo::kNone) {
    offload.gradients = OffloadTo::kHost;
  }
  const bool torch = framework.sharder == Sharder::kFsdp1 || framework.sharder == Sharder::kFsdp2;
  const bool states = offload.optimizer != OffloadTo::kNone ||
                      offload.gradients != OffloadTo::kNone ||
                      offload.parameters != OffloadTo::kNone;
  if (torch && states) {
    offload.optimizer = offload.gradients = offload.parameters = OffloadTo::kHost;
    offload.optimizer_share = 1;
  }
  return offload;
}

bool streams_optimizer(const Job& job) {
  return job.framework.implementation == models::Implementation::kTrireme &&
         job.offload.optimizer == OffloadTo::kHost && job.offload.optimizer_share == 1;
}

bool streams_alone(const Job& job) {
  Offload rest = job.offload;
  rest.optimizer = OffloadTo::kNone;
  return streams_optimizer(job) && !rest.any();
}

}  // namespace trireme::planner
