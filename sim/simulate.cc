#include "sim/simulate.h"

#include "sim/step_run.h"

namespace trireme::sim {

Simulation simulate(const StepProgram& program, const StepTimes& times,
                    const topologies::Cluster& cluster, const SimulateOptions& options) {
  return StepRun(program, times, cluster, options).run();
}

}  // namespace trireme::sim
