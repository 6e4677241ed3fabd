#include "core/error.h"
#include "tools/run_cuda.h"

namespace trireme::tools {
namespace {
[[noreturn]] void refuse() {
  throw Error("--backend",
              "cuda: this build has no CUDA; build on a machine with the CUDA Toolkit and NCCL, or "
              "use --backend cpu",
              ErrorKind::kMissingMachine);
}
}  // namespace

int visible_gpus() {
  return 0;
}

void require_cuda() {
  refuse();
}

int run_on_cuda(const RankRun& /*run*/,
                const std::optional<runtime::RankEnvironment>& /*environment*/,
                RunDescription& /*description*/, std::FILE* /*err*/) {
  refuse();
}

}  // namespace trireme::tools
