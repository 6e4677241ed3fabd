#include "tools/machine_checks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <optional>

#include "tools/build_facts.h"
#include "tools/loaded_library.h"
#include "topologies/profile.h"

namespace trireme::tools {
namespace {

using Checks = std::vector<MachineCheck>;

// The driver's interface, as cuda.h declares it.
using Init = int(unsigned);
using Number = int(int*);
using GetDevice = int(int*, int);
using GetName = int(char*, int, int);
using GetMemory = int(std::size_t*, int);
using CanReach = int(int*, int, int);
using Version = std::size_t();

std::string cuda_text(int version) {  // 13000 is 13.0
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

void add(Checks& checks, std::string name, std::string detail) {
  checks.push_back({std::move(name), CheckState::kOk, std::move(detail), {}});
}

void add(Checks& checks, std::string name, CheckState state, std::string detail, std::string fix) {
  checks.push_back({std::move(name), state, std::move(detail), std::move(fix)});
}

struct Driver {
  LoadedLibrary library;
  int version = 0, gpus = 0;
  explicit Driver(const std::string& folder) : library(folder, {"libcuda.so.1"}) {}
};

void check_driver(Driver& driver, Checks& checks) {
  constexpr const char* kFix =
      "install the NVIDIA driver (Debian: apt-get install nvidia-driver), then restart";
  auto* init = driver.library.function<Init>("cuInit");
  auto* version = driver.library.function<Number>("cuDriverGetVersion");
  auto* count = driver.library.function<Number>("cuDeviceGetCount");
  if (init == nullptr || version == nullptr || count == nullptr) {
    add(checks, "cuda_driver", CheckState::kMissing, "libcuda.so.1 is not found", kFix);
    return;
  }
  if (const int code = init(0); code != 0) {
    add(checks, "cuda_driver", CheckState::kMissing,
        fmt::format("the driver does not start (CUDA error {})", code),
        "see what nvidia-smi says; in a container start it with --gpus all");
    return;
  }
  version(&driver.version);
  count(&driver.gpus);
  add(checks, "cuda_driver", "supports CUDA " + cuda_text(driver.version));
}

void check_gpus(const Driver& driver, Checks& checks) {
  if (driver.gpus == 0) {
    add(checks, "gpus", CheckState::kMissing, "none is visible",
        "planning and simulating need none; to run and calibrate, use a machine with an NVIDIA "
        "GPU, and look at "
        "CUDA_VISIBLE_DEVICES");
    return;
  }
  auto* device = driver.library.function<GetDevice>("cuDeviceGet");
  auto* name = driver.library.function<GetName>("cuDeviceGetName");
  auto* memory = driver.library.function<GetMemory>("cuDeviceTotalMem_v2");
  std::string text;
  for (int gpu = 0; gpu < driver.gpus && device != nullptr && name != nullptr && memory != nullptr;
       ++gpu) {
    int handle = 0;
    std::array<char, 256> word{};
    std::size_t bytes = 0;
    device(&handle, gpu);
    name(word.data(), static_cast<int>(word.size()) - 1, handle);
    memory(&bytes, handle);
    text += fmt::format("{}{} ({:.1f} GiB)", text.empty() ? "" : ", ", word.data(),
                        static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0));
  }
  add(checks, "gpus", fmt::format("{}: {}", driver.gpus, text));
}

void check_peers(const Driver& driver, Checks& checks) {
  auto* can_reach = driver.library.function<CanReach>("cuDeviceCanAccessPeer");
  if (driver.gpus < 2 || can_reach == nullptr) {
    return;
  }
  std::string apart;
  for (int from = 0; from < driver.gpus; ++from) {
    for (int to = 0; to < driver.gpus; ++to) {
      int can = 1;
      if (from != to && can_reach(&can, from, to) == 0 && can == 0) {
        apart += fmt::format("{}{}-{}", apart.empty() ? "" : " ", from, to);
      }
    }
  }
  if (apart.empty()) {
    add(checks, "peer_access", "every GPU reaches every other directly");
  } else {
    add(checks, "peer_access", CheckState::kMissing, "no direct access between GPUs " + apart,
        "see nvidia-smi topo -p2p r; in a virtual machine turn the IOMMU and PCIe ACS off");
  }
}

void check_runtime(const MachineLook& look, const Driver& driver, Checks& checks) {
  const LoadedLibrary library(look.libraries,
                              {"libcudart.so.13", "libcudart.so.12", "libcudart.so"});
  auto* version = library.function<Number>("cudaRuntimeGetVersion");
  int number = 0;
  if (version == nullptr || version(&number) != 0) {
    add(checks, "cuda_runtime", CheckState::kMissing, "libcudart is not found",
        "apt-get install cuda-cudart-13-0 from NVIDIA's repository, or set LD_LIBRARY_PATH to "
        "/usr/local/cuda/lib64");
  } else if (driver.version > 0 && number > driver.version) {
    add(checks, "cuda_driver_version", CheckState::kOld,
        fmt::format("the runtime is CUDA {}, the driver supports {}", cuda_text(number),
                    cuda_text(driver.version)),
        "install a newer NVIDIA driver");
  } else {
    add(checks, "cuda_runtime", "CUDA " + cuda_text(number));
  }
}

void check_nccl(const MachineLook& look, Checks& checks) {
  constexpr const char* kFix = "apt-get install libnccl2 from NVIDIA's repository";
  constexpr int kLeast = 21400;  // 2.14: configured communicators
  const LoadedLibrary library(look.libraries, {"libnccl.so.2"});
  auto* version = library.function<Number>("ncclGetVersion");
  int number = 0;
  if (version == nullptr || version(&number) != 0) {
    add(checks, "nccl", CheckState::kMissing, "libnccl.so.2 is not found", kFix);
    return;
  }
  const std::string text =
      fmt::format("NCCL {}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  if (number < kLeast) {
    add(checks, "nccl", CheckState::kOld, text + "; 2.14 or later is needed", kFix);
  } else {
    add(checks, "nccl", text);
  }
}

void check_cudnn(const MachineLook& look, Checks& checks) {
  constexpr const char* kFix = "apt-get install libcudnn9-cuda-13 from NVIDIA's repository";
  const LoadedLibrary library(look.libraries, {"libcudnn.so.9", "libcudnn.so.8"});
  auto* version = library.function<Version>("cudnnGetVersion");
  if (version == nullptr) {
    add(checks, "cudnn", CheckState::kMissing, "libcudnn is not found", kFix);
    return;
  }
  const std::size_t number = version();
  if (number < 90000) {
    add(checks, "cudnn", CheckState::kOld,
        fmt::format("cuDNN {}.{}; 9 is needed", number / 1000, number / 100 % 10), kFix);
  } else {
    add(checks, "cudnn",
        fmt::format("cuDNN {}.{}.{}", number / 10000, number / 100 % 100, number % 100));
  }
}

// Where `program` is in a list of folders with colons between.
std::optional<std::string> found_in(const std::string& path, const std::string& program) {
  std::string rest = path + ":";
  for (auto cut = rest.find(':'); cut != std::string::npos; cut = rest.find(':')) {
    const std::string file = rest.substr(0, cut) + "/" + program;
    rest.erase(0, cut + 1);
    if (::access(file.c_str(), X_OK) == 0) {
      return file;
    }
  }
  return std::nullopt;
}

struct Launcher {
  const char *program, *fix;
};
constexpr Launcher kLaunchers[] = {
    {"torchrun", "pip install torch"},
    {"deepspeed", "pip install deepspeed"},
    {"accelerate", "pip install accelerate"},
    {"mpirun", "apt-get install openmpi-bin"},
    {"srun", "apt-get install slurm-client, on a machine of a Slurm cluster"}};

void check_profile(const MachineLook& look, const Driver& driver, Checks& checks) {
  if (!look.profile.empty()) {
    const topologies::Profile profile = topologies::load_profile(look.profile);
    add(checks, "profile", fmt::format("{} ({})", look.profile, profile.name));
  } else if (driver.gpus > 0) {
    add(checks, "profile", CheckState::kMissing, "the shipped one, which never saw this machine",
        "trireme calibrate -o profile.json, then --calibration profile.json");
  } else {
    add(checks, "profile", "the shipped one");
  }
}

void check_build(const Driver& driver, Checks& checks) {
  const std::string text = fmt::format("trireme {}, {}", version(), compiler());
  if (built_with_cuda()) {
    add(checks, "build", text + ", with the CUDA runtime");
  } else if (driver.gpus > 0) {
    add(checks, "build", CheckState::kMissing, text + ", without the CUDA runtime",
        "install the CUDA Toolkit, NCCL and cuDNN with their headers, then cmake --preset cuda and "
        "build anew");
  } else {
    add(checks, "build", text + ", without the CUDA runtime (there is no GPU to use it)");
  }
  if (const std::string missing = readers_missing(); missing.empty()) {
    add(checks, "readers", readers_built());
  } else {
    add(checks, "readers", CheckState::kMissing, "only " + readers_built(),
        "apt-get install " + missing + ", then build anew");
  }
}

}  // namespace

std::string_view to_string(CheckState state) {
  switch (state) {
    case CheckState::kOk:
      return "ok";
    case CheckState::kMissing:
      return "missing";
    case CheckState::kOld:
      return "old";
  }
  return "";
}

std::vector<MachineCheck> check_machine(const MachineLook& look) {
  Checks checks;
  Driver driver(look.libraries);
  check_driver(driver, checks);
  check_gpus(driver, checks);
  check_peers(driver, checks);
  check_runtime(look, driver, checks);
  check_nccl(look, checks);
  check_cudnn(look, checks);
  check_build(driver, checks);
  check_profile(look, driver, checks);
  for (const Launcher& launcher : kLaunchers) {
    if (const auto file = found_in(look.path, launcher.program)) {
      add(checks, launcher.program, *file);
    } else {
      add(checks, launcher.program, CheckState::kMissing, "is not on PATH", launcher.fix);
    }
  }
  return checks;
}

}  // namespace trireme::tools
