// Communication between ranks that are threads of one process: they publish pointers and meet.
// Nothing here blocks; a rank asks again after `changes()` has moved on. Sums run over the members
// in their order, so that every member and every run gets the same bits.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/program.h"
#include "core/units.h"

namespace trireme::runtime::cpu {

// One meeting of a group's members for one collective. Guarded by the exchange's mutex until
// `arrived` is complete; the inputs are then constant until every member is done reading.
struct Meeting {
  std::vector<const void*> inputs;  // by member
  std::vector<double> ready;        // when each arrived, seconds on the process's clock
  std::vector<std::string> labels;  // what each member calls the op, to refuse a mismatch
  std::size_t arrived = 0;
  std::size_t finished_reading = 0;
};

struct Message {
  const void* data = nullptr;
  std::int64_t count = 0;
  std::uint32_t tag = 0;
  double sent = 0;   // when the sender was ready
  double taken = 0;  // when the receiver was ready
  bool received = false;
};

// Shared by the ranks of a run.
class Exchange {
 public:
  explicit Exchange(std::int64_t ranks) : current_ops_(static_cast<std::size_t>(ranks)) {}

  // The meeting number `round` of the ranks `members` on their communicator (group, name of the
  // stream); member `place` arrives with `input`. Throws Error when `label` differs from what
  // another member brought.
  std::shared_ptr<Meeting> arrive(const std::vector<Rank>& members, GroupId group,
                                  const std::string& stream, std::int64_t round, std::size_t place,
                                  const void* input, double now, const std::string& label);
  bool all_arrived(const Meeting& meeting);
  void finish_reading(Meeting& meeting);
  bool all_finished(const Meeting& meeting);

  // (sender, receiver, channel) queues of messages.
  std::shared_ptr<Message> send(Rank sender, Rank receiver, std::uint16_t channel, Message message);
  // The oldest message that nobody took, or null.
  std::shared_ptr<Message> take(Rank sender, Rank receiver, std::uint16_t channel);
  void acknowledge(Message& message, double receiver_ready);
  bool is_received(const Message& message);

  // A counter that moves with every change; wait_change returns when it is no longer `seen`, or
  // after `timeout`.
  std::uint64_t changes();
  void wait_change(std::uint64_t seen, Seconds timeout);

  // ---- failure: the first one ends every rank.
  void fail(const std::string& reason);
  bool failed();
  std::string failure();
  // The op each rank is in, for the failure's message.
  void set_current(Rank rank, OpId op) { current_ops_[index_of(rank)] = index_of(op); }
  [[nodiscard]] OpId current(Rank rank) const { return OpId(current_ops_[index_of(rank)].load()); }

 private:
  using MeetingKey =
      std::tuple<Rank, GroupId, std::string, std::int64_t>;  // by the group's first member
  using Channel = std::tuple<Rank, Rank, std::uint16_t>;

  void changed();  // with the mutex held

  std::mutex mutex_;
  std::condition_variable change_;
  std::uint64_t changes_ = 0;
  std::map<MeetingKey, std::shared_ptr<Meeting>> meetings_;
  std::map<Channel, std::deque<std::shared_ptr<Message>>> messages_;
  bool failed_ = false;
  std::string failure_;
  std::vector<std::atomic<std::uint32_t>> current_ops_;
};

}  // namespace trireme::runtime::cpu
