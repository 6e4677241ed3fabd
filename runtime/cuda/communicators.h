// The NCCL communicators of one rank: one for every group and stream that a step program uses, and
// one for every (sender, receiver, channel), so that no message waits behind another one.
#pragma once

#include <nccl.h>

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/program.h"
#include "core/units.h"

namespace trireme::runtime::cuda {

// Rank 0's blob on every rank: how NCCL's unique ids travel.
using BroadcastBlob = std::function<std::string(const std::string&)>;

struct CommunicatorKey {
  bool is_message = false;  // members are {sender, receiver}
  std::uint32_t lane = 0;   // stream of a collective, channel of a message
  std::vector<Rank> members;
  friend auto operator<=>(const CommunicatorKey&, const CommunicatorKey&) = default;
};

enum class CommunicatorUse : std::uint8_t { kCollectives, kMessages };

// Joins `size` ranks that all call this (messages: rank 0 sends to rank 1), and exchanges one
// element, so that its connections exist before kernels that wait for peers are in flight. Its
// calls return once they are queued: with non-blocking communicators NCCL starts a thread for each
// call, which cost 70 to 100 us of host time (2 H200, NCCL 2.28.3). Throws Error when a peer does
// not come within `timeout`; the caller should then end the process, since NCCL still waits.
ncclComm_t make_communicator(const ncclUniqueId& id, CommunicatorUse use, int size, int place,
                             Seconds timeout);

class Communicators {
 public:
  // Collective over all ranks of the program. Throws Error when a peer does not come within
  // `timeout`.
  Communicators(const StepProgram& program, Rank rank, const BroadcastBlob& broadcast,
                Seconds timeout);
  ~Communicators();
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;
  Communicators(Communicators&&) = delete;
  Communicators& operator=(Communicators&&) = delete;

  [[nodiscard]] ncclComm_t of_group(GroupId group, StreamId stream) const;
  [[nodiscard]] ncclComm_t of_message(Rank sender, Rank receiver, std::uint16_t channel) const;
  // What a communicator reports has gone wrong; empty when nothing has.
  [[nodiscard]] std::string failure() const;
  // Ends everything in flight; afterwards nothing may be queued.
  void abort();

 private:
  const StepProgram* program_;
  Rank rank_;
  std::map<CommunicatorKey, ncclComm_t> made_;
};

}  // namespace trireme::runtime::cuda
