#include "runtime/cpu/streams.h"

#include <utility>

#include "core/random.h"

namespace trireme::runtime::cpu {

Streams::Streams(std::size_t count, std::uint64_t shuffle_seed)
    : queues_(count), waits_(count), seed_(shuffle_seed) {}

void Streams::begin_step(std::int64_t step) {
  key_ = random_key(seed_ + static_cast<std::uint64_t>(step), "shuffle");
}

std::uint64_t Streams::draw() {
  return random_bits(key_, draws_++);
}

void Streams::wait(StreamId stream, OpId earlier) {
  waits_[index_of(stream)].push_back(earlier);
}

bool Streams::add(StreamId stream, Task task) {
  std::swap(task.waits, waits_[index_of(stream)]);
  queues_[index_of(stream)].push_back(std::move(task));
  return seed_ == 0 || draw() % 8 == 0;
}

bool Streams::run(const std::function<Progress(Task&)>& advance, bool everything) {
  bool moved = false;
  bool again = true;
  while (again) {
    again = false;
    const std::size_t first = seed_ == 0 ? 0 : draw() % queues_.size();
    for (std::size_t i = 0; i < queues_.size(); ++i) {
      auto& queue = queues_[(first + i) % queues_.size()];
      while (!queue.empty()) {
        const Progress progress = advance(queue.front());
        if (progress == Progress::kNone) {
          break;
        }
        again = moved = true;
        if (progress == Progress::kEnded) {
          queue.pop_front();
        }
        if (seed_ != 0 && draw() % 2 == 0) {
          break;
        }
      }
    }
    again = again && (everything || seed_ == 0);
  }
  return moved;
}

const Task* Streams::stuck() const {
  const Task* first = nullptr;
  for (const auto& queue : queues_) {
    if (!queue.empty() && (first == nullptr || queue.front().op < first->op)) {
      first = &queue.front();
    }
  }
  return first;
}

}  // namespace trireme::runtime::cpu
