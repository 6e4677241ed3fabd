#include "runtime/cpu/exchange.h"

#include <fmt/format.h>

#include <chrono>

#include "core/error.h"

namespace trireme::runtime::cpu {

std::shared_ptr<Meeting> Exchange::arrive(const std::vector<Rank>& members, GroupId group,
                                          const std::string& stream, std::int64_t round,
                                          std::size_t place, const void* input, double now,
                                          const std::string& label) {
  const std::lock_guard lock(mutex_);
  const MeetingKey key{members.front(), group, stream, round};
  std::shared_ptr<Meeting>& slot = meetings_[key];
  if (slot == nullptr) {
    slot = std::make_shared<Meeting>();
    slot->inputs.resize(members.size());
    slot->ready.resize(members.size());
    slot->labels.resize(members.size());
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (!slot->labels[i].empty() && slot->labels[i] != label) {
      throw Error(fmt::format("rank {}", index_of(members[place])),
                  fmt::format("calls {} where rank {} of the same group calls {}", label,
                              index_of(members[i]), slot->labels[i]));
    }
  }
  slot->inputs[place] = input;
  slot->ready[place] = now;
  slot->labels[place] = label;
  ++slot->arrived;
  std::shared_ptr<Meeting> meeting = slot;
  if (meeting->arrived == members.size()) {
    meetings_.erase(key);  // every member holds it
  }
  changed();
  return meeting;
}

bool Exchange::all_arrived(const Meeting& meeting) {
  const std::lock_guard lock(mutex_);
  return meeting.arrived == meeting.inputs.size();
}

void Exchange::finish_reading(Meeting& meeting) {
  const std::lock_guard lock(mutex_);
  ++meeting.finished_reading;
  changed();
}

bool Exchange::all_finished(const Meeting& meeting) {
  const std::lock_guard lock(mutex_);
  return meeting.finished_reading == meeting.inputs.size();
}

std::shared_ptr<Message> Exchange::send(Rank sender, Rank receiver, std::uint16_t channel,
                                        Message message) {
  const std::lock_guard lock(mutex_);
  auto& queue = messages_[{sender, receiver, channel}];
  queue.push_back(std::make_shared<Message>(message));
  changed();
  return queue.back();
}

std::shared_ptr<Message> Exchange::take(Rank sender, Rank receiver, std::uint16_t channel) {
  const std::lock_guard lock(mutex_);
  auto& queue = messages_[{sender, receiver, channel}];
  if (queue.empty()) {
    return nullptr;
  }
  std::shared_ptr<Message> message = queue.front();
  queue.pop_front();
  return message;
}

void Exchange::acknowledge(Message& message, double receiver_ready) {
  const std::lock_guard lock(mutex_);
  message.taken = receiver_ready;
  message.received = true;
  changed();
}

bool Exchange::is_received(const Message& message) {
  const std::lock_guard lock(mutex_);
  return message.received;
}

std::uint64_t Exchange::changes() {
  const std::lock_guard lock(mutex_);
  return changes_;
}

void Exchange::wait_change(std::uint64_t seen, Seconds timeout) {
  std::unique_lock lock(mutex_);
  change_.wait_for(lock, std::chrono::duration<double>(timeout.value),
                   [&] { return changes_ != seen; });
}

void Exchange::fail(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!failed_) {
    failed_ = true;
    failure_ = reason;
  }
  changed();
}

bool Exchange::failed() {
  const std::lock_guard lock(mutex_);
  return failed_;
}

std::string Exchange::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Exchange::changed() {
  ++changes_;
  change_.notify_all();
}

}  // namespace trireme::runtime::cpu
