// Files that gzip has packed.
#pragma once

#include <string>
#include <string_view>

namespace trireme::tools {

// What `packed` unpacks to, `most` bytes of it at the most. Throws Error: damaged, too long, or no
// zlib when this was built.
std::string gunzip(std::string_view packed, const std::string& path, std::size_t most);

}  // namespace trireme::tools
