// The arithmetic of each collective for one member, once every member's input is in shared memory.
#pragma once

#include <cstdint>
#include <span>

#include "core/program.h"

namespace trireme::runtime::cpu {

// output[i] = sum or maximum over the inputs of element first + i, in member order.
template <typename T>
void reduce(std::span<const void* const> inputs, Reduction reduction, std::int64_t first,
            std::span<T> output);

// output = `count` elements from each input, starting at `first`, one after the other.
template <typename T>
void concatenate(std::span<const void* const> inputs, std::int64_t first, std::int64_t count,
                 std::span<T> output);

}  // namespace trireme::runtime::cpu
