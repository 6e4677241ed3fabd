// Distinct index types, so that a rank is never passed where a stage is meant. All are 0-based.
#pragma once

#include <cstdint>

namespace trireme {

enum class Rank : std::uint32_t {};
enum class OpId : std::uint32_t {};
enum class BufferId : std::uint32_t {};
enum class GroupId : std::uint32_t {};
enum class StreamId : std::uint16_t {};
enum class RoleIndex : std::uint32_t {};
enum class StageIndex : std::uint32_t {};

// The number behind an id, for indexing and printing.
template <typename Id>
constexpr std::uint32_t index_of(Id id) {
  return static_cast<std::uint32_t>(id);
}

}  // namespace trireme
