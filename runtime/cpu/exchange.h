// Communication between ranks that are threads of one process: they publish pointers and meet. What
// ranks of other processes bring lies here as a copy of its own (processes.h), and is read alike.
// Nothing here blocks; a rank asks again after `changes()` has moved on. Sums run over the members
// in their order, so that every member and every run gets the same bits.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/program.h"
#include "core/units.h"
#include "runtime/cpu/collective.h"

namespace trireme::runtime::cpu {

// What a member brings to a collective: values, or rows for each member.
struct Brought {
  const void* data = nullptr;      // the values, or the SentRows
  const SentRows* rows = nullptr;  // where `data` is rows
  std::size_t bytes = 0;           // of the values, or of all rows
};

// One member's arrival at the meeting number `round` of the ranks `members` on their communicator
// (group, name of the stream).
struct Arrival {
  std::vector<Rank> members;
  std::size_t place = 0;  // which of them
  GroupId group{};
  std::string stream;
  std::int64_t round = 0;
  Brought brought;
  double ready = 0;   // seconds on the process's clock
  std::string label;  // what the member calls the op, to refuse a mismatch
};

// What came from another process, where a meeting or a message points at it.
struct Kept {
  std::vector<std::byte> bytes;
  std::vector<std::int32_t> counts;  // of rows
  SentRows rows;
};

// One meeting of a group's members for one collective. Guarded by the exchange's mutex until
// `arrived` is complete; the inputs are then constant until every member is done reading.
struct Meeting {
  std::vector<const void*> inputs;  // by member
  std::vector<double> ready;        // when each arrived, seconds on the process's clock
  std::vector<std::string> labels;  // what each member calls the op, to refuse a mismatch
  std::vector<Kept> kept;           // by member, of those in other processes
  std::size_t arrived = 0;
  std::size_t readers = 0;  // members in this process
  std::size_t finished_reading = 0;
};

struct Message {
  const void* data = nullptr;
  std::int64_t count = 0;
  std::uint32_t tag = 0;
  double sent = 0;   // when the sender was ready
  double taken = 0;  // when the receiver was ready
  bool received = false;
  std::size_t bytes = 0;
  std::vector<std::byte> kept = {};  // the data, of a sender in another process
};

// Ranks in other processes: how a run tells them what happens here.
struct Elsewhere {
  std::function<void(const Arrival&)> arrive;
  std::function<void(Rank receiver, std::uint16_t channel, const Message&)> send;
  std::function<std::string(Rank)> name;  // with its host
};

// Shared by the ranks of a run.
class Exchange {
 public:
  explicit Exchange(std::int64_t ranks) : current_ops_(static_cast<std::size_t>(ranks)) {}
  // One rank of several processes. Call before the first op.
  void connect(Elsewhere elsewhere) { elsewhere_ = std::move(elsewhere); }

  // Throws Error when the label differs from what another member brought.
  std::shared_ptr<Meeting> arrive(const Arrival& arrival);
  // The same of a member in another process; `kept` is what it brought.
  void arrive_from_elsewhere(const Arrival& arrival, Kept kept);
  // Whom a meeting waits for: "rank 1, rank 3 on host-b".
  std::string missing(const Meeting& meeting, const std::vector<Rank>& members);
  [[nodiscard]] std::string name(Rank rank) const;
  bool all_arrived(const Meeting& meeting);
  void finish_reading(Meeting& meeting);
  bool all_finished(const Meeting& meeting);

  // (sender, receiver, channel) queues of messages.
  std::shared_ptr<Message> send(Rank sender, Rank receiver, std::uint16_t channel, Message message);
  // A message from another process, which keeps its data.
  void deliver(Rank sender, Rank receiver, std::uint16_t channel, Message message);
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

  std::shared_ptr<Meeting> enter(const Arrival& arrival);  // with the mutex held
  void changed();                                          // with the mutex held

  std::mutex mutex_;
  std::condition_variable change_;
  std::uint64_t changes_ = 0;
  std::map<MeetingKey, std::shared_ptr<Meeting>> meetings_;
  std::map<Channel, std::deque<std::shared_ptr<Message>>> messages_;
  bool failed_ = false;
  std::string failure_;
  std::vector<std::atomic<std::uint32_t>> current_ops_;
  Elsewhere elsewhere_;
};

}  // namespace trireme::runtime::cpu
