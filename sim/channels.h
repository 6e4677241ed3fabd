// Which ops of which actors belong together: the k-th collective of a group on a stream, the k-th
// message between two ranks on a channel. Each such meeting is a transfer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/op_times.h"
#include "core/program.h"
#include "sim/actors.h"
#include "sim/simulate.h"

namespace trireme::sim {

inline constexpr std::uint32_t kNone = 0xffffffff;

// What one role's op is to the simulator: all that is asked of it while events pass, in one cache
// line.
struct RoleOp {
  std::int64_t duration = 0;   // picoseconds, alone
  std::int64_t issued = 0;     // when the host has issued it
  std::uint32_t next = kNone;  // the op after it on its stream
  IndexRange dependents;       // in RolePlan::dependents
  std::uint32_t slot =
      kNone;  // of RolePlan::slots: its place among those that meet others; kNone: compute, copy
  std::uint32_t place = 0;  // in the slot
  std::uint32_t holds = 0;  // how many ops must end before it is ready
  Activity activity = Activity::kCompute;
  float meets = 1;  // share of a compute op's duration that collectives slow; of theirs, that slows
};

// The ops of one role that meet others in one way: through one group and stream, or with one peer
// and channel.
struct Slot {
  enum class Kind : std::uint8_t { kCollective, kSend, kRecv } kind = Kind::kCollective;
  GroupId group = kNoGroup;
  StreamId stream{};
  std::int32_t peer = 0;
  std::uint16_t channel = 0;
  std::vector<std::uint32_t> ops;
};

struct RolePlan {
  std::vector<RoleOp> ops;
  std::vector<std::uint32_t> dependents;
  std::vector<Slot> slots;
};
// Requires: `times` has an entry for every op.
std::vector<RolePlan> digest(const StepProgram& program, const StepTimes& times);

struct Participant {
  std::uint32_t actor = 0, slot = 0;
};
// Transfers [first, first + count) of the same participants, one after the other.
struct Channel {
  std::vector<Participant> participants;  // a message: sender, receiver
  std::uint32_t first = 0, count = 0;
  bool message = false;
  GroupId group = kNoGroup;
  Rank rank{};  // of the first participant: a member
  Rank peer{};  // of a message
};

struct Meetings {
  std::vector<Channel> channels;
  std::vector<std::vector<std::uint32_t>> channel_of;  // by actor, slot
  std::uint32_t transfers = 0;
};
Meetings meetings(const StepProgram& program, const ActorGrid& grid,
                  const std::vector<RolePlan>& roles);

}  // namespace trireme::sim
