// Times of a program's operations for the property tests: drawn at random, and as many times as
// long.
#pragma once

#include <cstdint>

#include "core/op_times.h"
#include "core/program.h"
#include "core/random.h"

namespace trireme::tests {

// Transfers take at least what their bytes need on the narrowest link of simulate_property_test.cc,
// so that a lone one never asks for more than a link has.
StepTimes random_times(const StepProgram& program, RandomStream& random);
StepTimes scaled(StepTimes times, std::int64_t factor);

}  // namespace trireme::tests
