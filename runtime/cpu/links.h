// Connections between the processes of a run, one a rank: each with each, and what comes on one is
// read at once by a thread of its own, so that nobody who sends waits for what its receiver does.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/descriptor.h"
#include "core/ids.h"
#include "core/units.h"
#include "runtime/coordinator.h"
#include "runtime/sockets.h"

namespace trireme::runtime::cpu {

// What one rank sends another: words, and values as they lie in memory (hosts of one byte order).
struct Letter {
  std::vector<std::string> words;  // none holds a line break
  std::vector<std::byte> bytes;
};

class Links {
 public:
  // Called from the thread that reads the sender's connection.
  using Receive = std::function<void(Rank from, Letter letter)>;

  // Every rank of the run makes one; they find each other through the coordinator. `master` is
  // where rank 0 serves: a rank listens at the address that faces it. Throws Error when a rank
  // cannot be reached within `timeout`.
  Links(Coordinator& coordinator, const StoreAddress& master, Seconds timeout, Receive receive);
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;
  Links(Links&&) = delete;
  Links& operator=(Links&&) = delete;
  ~Links();

  // From one thread at a time. Throws Error when the connection is lost.
  void send(Rank to, const std::vector<std::string>& words,
            std::span<const std::span<const std::byte>> parts);
  // "rank 1 on host-b".
  [[nodiscard]] std::string name(Rank rank) const;

 private:
  void read(Rank from);
  void read_letters(Rank from);

  Receive receive_;
  std::vector<std::string> hosts_;       // by rank
  std::vector<Descriptor> connections_;  // by rank; the own one is closed
  std::vector<std::thread> readers_;
};

}  // namespace trireme::runtime::cpu
