// The smallest program whose checkpoint has every kind of piece.
#pragma once

#include <cstdint>

#include "core/program.h"

namespace trireme::tests {

// A Llama shape of one layer, whole on one rank, or sharded over several.
StepProgram tiny_program(std::int64_t ranks);

}  // namespace trireme::tests
