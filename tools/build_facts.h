// What this program is: its version, and of what it was built. No date, so that one source gives
// one program.
#pragma once

#include <string>

namespace trireme::tools {

std::string version();   // "0.1.0"
std::string compiler();  // "GCC 12.2.0"
bool built_with_cuda();  // whether the CUDA runtime is in it
// "trireme 0.1.0 (commit b19bdee1234+, GCC 12.2.0, without the CUDA runtime)"; + where files
// differed from the commit.
std::string build_text();
// "TOML, YAML, XML": readers whose library was there when it was built; and the packages that bring
// the others.
std::string readers_built();
std::string readers_missing();  // "libyaml-cpp-dev"; empty: none

}  // namespace trireme::tools
