// What `doctor` looks at: what this machine has of what the program can use, what is missing, and
// what brings it. Libraries are opened as they are found, so that a build without CUDA says the
// same as one with it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme::tools {

enum class CheckState { kOk, kMissing, kOld };
std::string_view to_string(CheckState state);  // ok missing old

struct MachineCheck {
  std::string name;
  CheckState state = CheckState::kOk;
  std::string detail;
  std::string fix;  // what brings it; empty when ok
};

// Where to look.
struct MachineLook {
  std::string libraries;  // a folder of shared libraries; empty: where the system looks
  std::string path;       // of programs, as $PATH
  std::string profile;    // --calibration; empty: the shipped one
};

// Throws Error when the profile cannot be read.
std::vector<MachineCheck> check_machine(const MachineLook& look);

}  // namespace trireme::tools
