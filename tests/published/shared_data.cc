#include "tests/published/shared_data.h"

#include <cstdlib>
#include <filesystem>

namespace trireme::published {
namespace {

std::string told_folder() {
  const char* given = std::getenv("TRIREME_SHARED_DATA");
  return given != nullptr ? given : TRIREME_SOURCE_DIR "/../shared/data";
}

}  // namespace

std::string shared_data_folder() {
  const std::string folder = told_folder();
  return std::filesystem::is_directory(folder + "/nccl_tests") ? folder : "";
}

std::string published_folder() {
  return told_folder() + "/published";
}

}  // namespace trireme::published
