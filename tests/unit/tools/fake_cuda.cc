// A driver, a runtime, NCCL and cuDNN that answer what their versions of a test machine would: two
// GPUs that cannot reach each other, a runtime newer than the driver, an old cuDNN.
#include <cstddef>
#include <cstring>

extern "C" {

int cuInit(unsigned flags);
int cuDriverGetVersion(int* version);
int cuDeviceGetCount(int* count);
int cuDeviceGet(int* device, int at);
int cuDeviceGetName(char* name, int size, int device);
int cuDeviceTotalMem_v2(std::size_t* bytes, int device);
int cuDeviceCanAccessPeer(int* can, int from, int to);
int cudaRuntimeGetVersion(int* version);
int ncclGetVersion(int* version);
std::size_t cudnnGetVersion();

int cuInit(unsigned /*flags*/) {
  return 0;
}
int cuDriverGetVersion(int* version) {
  *version = 12040;
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = 2;
  return 0;
}
int cuDeviceGet(int* device, int at) {
  *device = at;
  return 0;
}
int cuDeviceGetName(char* name, int size, int device) {
  std::strncpy(name, device == 0 ? "Test GPU A" : "Test GPU B", static_cast<std::size_t>(size));
  return 0;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int /*device*/) {
  *bytes = std::size_t{80} << 30U;
  return 0;
}
int cuDeviceCanAccessPeer(int* can, int from, int to) {
  *can = from == to ? 1 : 0;
  return 0;
}
int cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int ncclGetVersion(int* version) {
  *version = 21803;
  return 0;
}
std::size_t cudnnGetVersion() {
  return 8907;
}
}
