// TRIREME_CHECK: an invariant of ours. Always on; a failure is our bug, so it prints the place and
// aborts. Bad input is core/error.h's; an answer that happens to be "no" is a value.
#pragma once

namespace trireme {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace trireme

#define TRIREME_CHECK(condition)                               \
  do {                                                         \
    if (!(condition)) {                                        \
      ::trireme::check_failed(#condition, __FILE__, __LINE__); \
    }                                                          \
  } while (false)
