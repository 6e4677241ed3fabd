// The ranks of a run as processes, one a rank, as a launcher starts them on one host or several.
// What a rank brings to a collective is copied to every other member, and each member adds up in
// the members' order, as threads of one process do: the results are the same bits.
#pragma once

#include "runtime/cpu/exchange.h"
#include "runtime/cpu/links.h"

namespace trireme::runtime::cpu {

class Processes {
 public:
  // Every rank makes one, and they connect. Throws Error as Links does.
  Processes(Coordinator& coordinator, const StoreAddress& master, Seconds timeout);
  // What the own rank's backend communicates through.
  Exchange& exchange() { return exchange_; }

 private:
  void arrive(const Arrival& arrival);
  void send(Rank receiver, std::uint16_t channel, const Message& message);
  void receive(Rank from, Letter letter);
  void post(Rank to, const std::vector<std::string>& words,
            std::span<const std::span<const std::byte>> parts);

  Coordinator* coordinator_;
  Rank rank_;
  Exchange exchange_;
  Links links_;  // goes first: its threads write to the exchange
};

}  // namespace trireme::runtime::cpu
