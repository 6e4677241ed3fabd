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

class Communicators {
 public:
  // Collective over all ranks of the program. Every communicator exchanges one element, so that its
  // connections exist before kernels that wait for peers are in flight. Throws Error when a peer
  // does not come within `timeout`.
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

// Waits while a non-blocking communicator is still at work, then throws Error if it failed.
void settle(ncclComm_t communicator, ncclResult_t status, const char* what, Seconds timeout);

}  // namespace trireme::runtime::cuda
