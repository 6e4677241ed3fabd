#include "planner/cost/host_wait.h"

#include <algorithm>
#include <cmath>

namespace trireme::planner {
namespace {

// How much longer work takes than the GPU needs because the host issues it: some kernels wait for
// the host and others queue up behind the GPU, so that near equality neither is wholly hidden. A
// power mean of both, with power 5: vTrain's single-node rows pass through equality with their
// micro-batch. With a queue that lasts from pass to pass 10: PyTorch's steps on H200 show little
// waiting at 0.9.
double host_wait(double gpu, double host, bool runs_ahead) {
  const double larger = std::max(gpu, host);
  if (larger <= 0) {
    return 0;
  }
  const double ratio = std::min(gpu, host) / larger;
  const double square = ratio * ratio;
  const double fifth = square * square * ratio;
  const double power = runs_ahead ? fifth * fifth : fifth;
  constexpr double kNegligible = 1e-6;
  const double sum = power < kNegligible ? 1 : std::pow(1 + power, runs_ahead ? 0.1 : 0.2);
  return larger * sum - gpu;
}

}  // namespace

void set_host_waits(const Plan& plan, const Framework& framework, RankTimes& rank) {
  if (framework.launch_blocking) {
    rank.host_wait_forward = rank.host_forward;
    rank.host_wait_backward = rank.host_backward;
    return;
  }
  const bool ahead = framework.host_runs_ahead;
  const double forward = rank.forward_total();
  const double backward = rank.backward_total();
  if (plan.pipeline > 1 && !ahead) {
    rank.host_wait_forward = host_wait(forward, rank.host_forward, ahead);
    rank.host_wait_backward = host_wait(backward, rank.host_backward, ahead);
    return;
  }
  const double wait = host_wait(forward + backward, rank.host_forward + rank.host_backward, ahead);
  const double share = wait > 0 ? rank.host_forward / (rank.host_forward + rank.host_backward) : 0;
  rank.host_wait_forward = share * wait;
  rank.host_wait_backward = (1 - share) * wait;
}

}  // namespace trireme::planner
