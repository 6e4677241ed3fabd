#include "runtime/cuda/microbench.h"

#include <cudnn.h>
#include <nccl.h>

#include <string>

#include "runtime/cuda/bench.h"
#include "runtime/cuda/check.h"

namespace trireme::runtime::cuda {
namespace {

std::string version_text(int version, int major_scale) {
  return std::to_string(version / major_scale) + "." + std::to_string(version % major_scale / 10);
}

}  // namespace

MachineFingerprint fingerprint(int device, std::int64_t gpus) {
  MachineFingerprint machine;
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "GPU");
  int driver = 0;
  int runtime = 0;
  int nccl = 0;
  int clock = 0;
  int memory_clock = 0;
  check(cudaDriverGetVersion(&driver), "CUDA version");
  check(cudaRuntimeGetVersion(&runtime), "CUDA version");
  check(ncclGetVersion(&nccl), "NCCL version");
  check(cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, device), "GPU clock");
  check(cudaDeviceGetAttribute(&memory_clock, cudaDevAttrMemoryClockRate, device), "GPU clock");
  machine.gpu = static_cast<const char*>(properties.name);
  machine.driver = version_text(driver, 1000);
  machine.cuda = version_text(runtime, 1000);
  machine.nccl = std::to_string(nccl / 10000) + "." + std::to_string(nccl / 100 % 100) + "." +
                 std::to_string(nccl % 100);
  machine.cudnn = std::to_string(cudnnGetVersion());
  machine.gpus = gpus;
  machine.multiprocessors = properties.multiProcessorCount;
  machine.clock_mhz = clock / 1000.0;
  machine.memory_clock_mhz = memory_clock / 1000.0;
  machine.memory = Bytes(static_cast<std::int64_t>(properties.totalGlobalMem));
  return machine;
}

Microbenchmarks measure(Coordinator& coordinator, int device, const MicrobenchSettings& settings,
                        Seconds timeout) {
  check(cudaSetDevice(device), "GPU");
  Bench bench(device, settings);
  Microbenchmarks found;
  found.machine = fingerprint(device, coordinator.ranks());
  measure_matmuls(bench, found);
  measure_grouped(bench, found);
  measure_attention(bench, found);
  measure_passes(bench, found);
  measure_own_kernels(bench, found);
  measure_copies(bench, coordinator, found);
  measure_launch(bench, found);
  coordinator.barrier();
  measure_collectives(bench, coordinator, timeout, found);
  bench.progress(1.0, "done");
  return found;
}

}  // namespace trireme::runtime::cuda
