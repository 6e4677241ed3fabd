// Real files that lie beside the project but not in it: tests that read them say that they skipped
// when they are not there.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace trireme {

inline std::optional<std::filesystem::path> shared_data() {
  const char* given = std::getenv("TRIREME_SHARED_DATA");
  const std::filesystem::path path =
      given != nullptr ? given : std::filesystem::path(TRIREME_SOURCE_DIR) / "../shared/data";
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? std::optional(path) : std::nullopt;
}

}  // namespace trireme
