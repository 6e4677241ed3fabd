#include "core/error.h"
#include "tools/gunzip.h"

namespace trireme::tools {

std::string gunzip(std::string_view /*packed*/, const std::string& path, std::size_t /*most*/) {
  throw Error(path, "is gzipped, and this build has no zlib (package zlib1g-dev); gunzip it first");
}

}  // namespace trireme::tools
