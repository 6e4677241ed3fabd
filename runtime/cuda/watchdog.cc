#include "runtime/cuda/watchdog.h"

#include <cstdio>
#include <cstdlib>

namespace trireme::runtime::cuda {

Watchdog::Watchdog(Seconds limit, std::function<std::string()> describe)
    : limit_(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          std::chrono::duration<double>(limit.value))),
      describe_(std::move(describe)),
      thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, std::chrono::milliseconds(500), [this] { return stop_; })) {
    const std::chrono::steady_clock::time_point last{
        std::chrono::steady_clock::duration(last_beat_)};
    if (armed_ && std::chrono::steady_clock::now() - last > limit_) {
      std::fprintf(stderr, "trireme: %s\n", describe_().c_str());
      std::fflush(stderr);
      std::_Exit(3);
    }
  }
}

}  // namespace trireme::runtime::cuda
