#include "core/error.h"
#include "tools/calibrate_cuda.h"

namespace trireme::tools {

int measure_on_gpus(const Measurement& /*measurement*/, const Console& /*console*/) {
  throw Error("calibrate",
              "measuring needs GPUs and this build has no CUDA; build on a machine with the CUDA "
              "Toolkit and NCCL, or fit what was measured elsewhere with --fit, --from-points or "
              "--from-run",
              ErrorKind::kMissingMachine);
}

}  // namespace trireme::tools
