// The arithmetic of each collective for one member, once every member's input is in shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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

// What a member of an exchange of rows brings: rows for the first member, for the second and so on,
// and how many, in `each` counts for every member.
struct SentRows {
  const void* rows = nullptr;
  const std::int32_t* counts = nullptr;
  std::size_t each = 0;
};
// output = the rows of `row` elements that each sender (a SentRows) has for member `place`, one
// after the other.
template <typename T>
void concatenate_rows(std::span<const void* const> senders, std::size_t place, std::int64_t row,
                      std::vector<T>& output);

// What the collective gives member `place`: `output` elements, but as many rows as there are where
// rows are exchanged.
template <typename T>
void collect_result(const OpKind& kind, std::span<const void* const> inputs, std::size_t place,
                    std::int64_t input_count, std::int64_t output_count, std::vector<T>& result);

}  // namespace trireme::runtime::cpu
