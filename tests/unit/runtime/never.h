#pragma once

#include "core/units.h"

namespace trireme::runtime {

constexpr Seconds kNever(3600);  // for which nothing waits in these tests, unless it hangs

}  // namespace trireme::runtime
