// Asks rank 0's store every second whether all ranks still live, from a thread of its own: a rank
// inside a collective waits for a peer that is gone, and would say no more than that time ran out.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/tcp_store.h"

namespace trireme::runtime {

class PeerWatch {
 public:
  struct Times {
    Seconds period{1};
    // In which a rank that is told by its own requests can end in order.
    Seconds grace{5};
  };
  // `on_failure` gets the reason, once, from the watch's thread. Throws Error when the store does
  // not answer within `timeout`.
  PeerWatch(const StoreAddress& address, Rank rank, std::int64_t ranks, Seconds timeout,
            std::function<void(const std::string&)> on_failure, Times times);
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;
  PeerWatch(PeerWatch&&) = delete;
  PeerWatch& operator=(PeerWatch&&) = delete;
  ~PeerWatch();  // nothing is reported any more

 private:
  void watch();
  // False when the watch has been ended.
  bool wait(Seconds time);

  std::string rank_0_host_;
  TcpStoreClient client_;
  std::function<void(const std::string&)> on_failure_;
  Times times_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace trireme::runtime
