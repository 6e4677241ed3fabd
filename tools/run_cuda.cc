// Ranks of `trireme run` as processes, one a GPU.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.h"
#include "runtime/cuda/backend.h"
#include "tools/run_cuda.h"

namespace trireme::tools {

// Asked in a child process: CUDA does not survive a fork, so this process must not start it.
int visible_gpus() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(runtime::cuda::device_count());
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
    return 0;
  }
  return WEXITSTATUS(status);
}

void require_cuda() {
  if (visible_gpus() == 0) {
    throw Error("--backend",
                "cuda: no GPU is visible here; use --backend cpu, or a machine with a GPU",
                ErrorKind::kMissingMachine);
  }
}

int run_on_cuda(const RankRun& run, const std::optional<runtime::RankEnvironment>& environment,
                RunDescription& description, std::FILE* err) {
  const int gpus = visible_gpus();
  if (!environment.has_value() && run.program->ranks > gpus) {
    throw Error(
        "--layout",
        fmt::format(
            "{} needs {} GPUs and {} are visible here; start one process a GPU on more hosts "
            "with torchrun, srun or mpirun, or choose a smaller layout",
            run.program->name, run.program->ranks, gpus),
        ErrorKind::kMissingMachine);
  }
  const auto make_backend = [&](const runtime::RankEnvironment& own,
                                runtime::Coordinator& coordinator,
                                runtime::OpBoard& board) -> std::unique_ptr<runtime::Backend> {
    const auto device = static_cast<int>(own.local_rank);
    name_device(description, runtime::cuda::device_name(device));
    auto backend = std::make_unique<runtime::cuda::CudaBackend>(
        *run.program, own.rank, device,
        [&](const std::string& blob) { return coordinator.broadcast(blob); }, run.settings.timeout,
        description.deterministic);
    backend->set_observer([&board, rank = own.rank](OpId op) { board.set(rank, op); });
    return backend;
  };
  return run_on_processes(run, environment, make_backend, err);
}

}  // namespace trireme::tools
