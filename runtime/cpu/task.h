// An op on its way through a stream of the reference backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/program.h"
#include "runtime/backend.h"
#include "runtime/cpu/collective.h"
#include "runtime/cpu/exchange.h"

namespace trireme::runtime::cpu {

// An op that has been issued. Its views are set; what else it needs is read from the program's op.
struct Task {
  enum class State : std::uint8_t { kQueued, kMeeting, kReading, kSent, kReceiving };
  OpId op{};
  std::vector<OpId> waits;
  std::vector<View> views;
  State state = State::kQueued;
  std::shared_ptr<Meeting> meeting;
  std::shared_ptr<Message> message;
  std::size_t place = 0;
  SentRows rows;  // of an exchange of rows
  OpTimes times;
};

}  // namespace trireme::runtime::cpu
