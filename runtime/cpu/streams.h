// The queues of one rank's streams: which of the ops that were issued is next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "core/program.h"
#include "runtime/cpu/task.h"

namespace trireme::runtime::cpu {

enum class Progress : std::uint8_t { kNone, kSome, kEnded };

class Streams {
 public:
  // A seed that is not 0 gives a random order among those that streams and waits allow.
  Streams(std::size_t count, std::uint64_t shuffle_seed);
  void begin_step(std::int64_t step);

  // What is added next on `stream` starts after op `earlier`.
  void wait(StreamId stream, OpId earlier);
  // At the end of its stream. A shuffled run leaves ops lying about, so that streams run ahead of
  // each other in ways a quick host hides; false then.
  bool add(StreamId stream, Task task);
  // Lets `advance` at the first task of each stream, again and again (`everything`: until nothing
  // moves, shuffled or not); true when anything moved.
  bool run(const std::function<Progress(Task&)>& advance, bool everything);

  // The first issued op that has not ended, or null.
  [[nodiscard]] const Task* stuck() const;

 private:
  std::uint64_t draw();

  std::vector<std::deque<Task>> queues_;
  std::vector<std::vector<OpId>> waits_;  // of the next task
  std::uint64_t seed_;
  std::uint64_t key_ = 0, draws_ = 0;
};

}  // namespace trireme::runtime::cpu
