#include "core/check.h"

#include <cstdio>
#include <cstdlib>

namespace trireme {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "trireme: internal error: %s does not hold at %s:%d; please report it\n",
               condition, file, line);
  std::abort();
}

}  // namespace trireme
