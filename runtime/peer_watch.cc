#include "runtime/peer_watch.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace trireme::runtime {

PeerWatch::PeerWatch(const StoreAddress& address, Rank rank, std::int64_t ranks, Seconds timeout,
                     std::function<void(const std::string&)> on_failure, Times times)
    : rank_0_host_(address.host),
      client_(address, rank, ranks, timeout, StoreClientKind::kWatch),
      on_failure_(std::move(on_failure)),
      times_(times) {
  try {
    thread_ = std::thread([this] { watch(); });
  } catch (const std::system_error& error) {
    throw Error("MASTER_PORT", std::string("the watch gets no thread: ") + error.what());
  }
}

PeerWatch::~PeerWatch() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

bool PeerWatch::wait(Seconds time) {
  std::unique_lock lock(mutex_);
  return !ended_.wait_for(lock, std::chrono::duration<double>(time.value),
                          [this] { return stop_; });
}

void PeerWatch::watch() {
  std::string reason;
  while (reason.empty() && wait(times_.period)) {
    try {
      reason = client_.failure();
    } catch (const Error&) {
      reason = "rank 0 at " + rank_0_host_ + " has gone or does not answer";
    }
  }
  if (!reason.empty() && wait(times_.grace)) {
    on_failure_(reason);
  }
}

}  // namespace trireme::runtime
