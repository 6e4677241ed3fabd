#include "runtime/cpu/exchange.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "core/error.h"

namespace trireme::runtime::cpu {

std::shared_ptr<Meeting> Exchange::enter(const Arrival& arrival) {
  const std::size_t members = arrival.members.size();
  const MeetingKey key{arrival.members.front(), arrival.group, arrival.stream, arrival.round};
  std::shared_ptr<Meeting>& slot = meetings_[key];
  if (slot == nullptr) {
    slot = std::make_shared<Meeting>();
    slot->inputs.resize(members);
    slot->ready.resize(members);
    slot->labels.resize(members);
    slot->kept.resize(members);
    slot->readers = elsewhere_.arrive == nullptr ? members : 1;
  }
  for (std::size_t i = 0; i < members; ++i) {
    if (!slot->labels[i].empty() && slot->labels[i] != arrival.label) {
      throw Error(name(arrival.members[arrival.place]),
                  fmt::format("calls {} where {} of the same group calls {}", arrival.label,
                              name(arrival.members[i]), slot->labels[i]));
    }
  }
  slot->inputs[arrival.place] = arrival.brought.data;
  slot->ready[arrival.place] = arrival.ready;
  slot->labels[arrival.place] = arrival.label;
  ++slot->arrived;
  std::shared_ptr<Meeting> meeting = slot;
  if (meeting->arrived == members) {
    meetings_.erase(key);  // every member holds it
  }
  changed();
  return meeting;
}

std::shared_ptr<Meeting> Exchange::arrive(const Arrival& arrival) {
  std::shared_ptr<Meeting> meeting;
  {
    const std::lock_guard lock(mutex_);
    meeting = enter(arrival);
  }
  if (elsewhere_.arrive != nullptr) {
    elsewhere_.arrive(arrival);
  }
  return meeting;
}

void Exchange::arrive_from_elsewhere(const Arrival& arrival, Kept kept) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Meeting> meeting = enter(arrival);
  Kept& place = meeting->kept[arrival.place];
  place = std::move(kept);
  if (place.rows.each > 0) {
    place.rows.rows = place.bytes.data();
    place.rows.counts = place.counts.data();
    meeting->inputs[arrival.place] = &place.rows;
  } else {
    meeting->inputs[arrival.place] = place.bytes.data();
  }
}

std::string Exchange::name(Rank rank) const {
  return elsewhere_.name != nullptr ? elsewhere_.name(rank)
                                    : fmt::format("rank {}", index_of(rank));
}

std::string Exchange::missing(const Meeting& meeting, const std::vector<Rank>& members) {
  const std::lock_guard lock(mutex_);
  std::string names;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (meeting.labels[i].empty()) {
      names += (names.empty() ? "" : ", ") + name(members[i]);
    }
  }
  return names;
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
  return meeting.finished_reading == meeting.readers;
}

std::shared_ptr<Message> Exchange::send(Rank sender, Rank receiver, std::uint16_t channel,
                                        Message message) {
  if (elsewhere_.send != nullptr) {
    elsewhere_.send(receiver, channel, message);
    message.received = true;  // it has been copied
    message.taken = message.sent;
    return std::make_shared<Message>(std::move(message));
  }
  const std::lock_guard lock(mutex_);
  auto& queue = messages_[{sender, receiver, channel}];
  queue.push_back(std::make_shared<Message>(std::move(message)));
  changed();
  return queue.back();
}

void Exchange::deliver(Rank sender, Rank receiver, std::uint16_t channel, Message message) {
  const std::lock_guard lock(mutex_);
  const auto whole = std::make_shared<Message>(std::move(message));
  whole->data = whole->kept.data();
  messages_[{sender, receiver, channel}].push_back(whole);
  changed();
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
