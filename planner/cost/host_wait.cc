#include "planner/cost/host_wait.h"

#include <algorithm>
#include <cmath>

#include "planner/plan/host_counts.h"

namespace trireme::planner {
namespace {

// Some kernels wait for the host and others queue up behind the GPU, so that near equality neither
// is wholly hidden. A power mean of both, with power 5: vTrain's single-node rows pass through
// equality with their micro-batch. With a queue that lasts from pass to pass 10: PyTorch's steps on
// H200 show little waiting at 0.9.
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

HostWaits host_waits(const PassPair& gpu, const PassPair& host, bool pipelined,
                     const Framework& framework) {
  if (framework.launch_blocking) {
    return {host.forward, host.backward};
  }
  const bool ahead = framework.host_runs_ahead;
  if (pipelined && !ahead) {
    return {host_wait(gpu.forward, host.forward, ahead),
            host_wait(gpu.backward, host.backward, ahead)};
  }
  // A host that waits at the end of each forward starts the backward with nothing queued: until it
  // has issued that, the GPU cannot reach the next forward.
  const HostCounts* counts = host_counts_of(framework);
  const bool waits = counts != nullptr && counts->waits_every_micro_batch;
  const double late = waits ? std::max(0.0, host.backward - gpu.backward) : 0;
  const double all = gpu.forward + gpu.backward;
  const double wait = late + host_wait(all + late, host.forward + host.backward, ahead);
  const double share = wait > 0 ? host.forward / (host.forward + host.backward) : 0;
  return {share * wait, (1 - share) * wait};
}

}  // namespace trireme::planner
