// A text file compiled into the program (presets, fitted constants).
#pragma once

#include <string_view>

namespace trireme::core {

struct EmbeddedFile {
  std::string_view name;  // without folder and extension
  std::string_view content;
};

}  // namespace trireme::core
