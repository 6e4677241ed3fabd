// What libFuzzer calls: one target, named when this is compiled.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/targets/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::fuzz::ask(&trireme::fuzz::TRIREME_FUZZ_TARGET,
                     {static_cast<const char*>(static_cast<const void*>(data)), size});
  return 0;
}
