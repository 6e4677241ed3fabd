// Ends the process when a step stops moving inside a call that no time-out reaches: a driver call
// may wait for the whole device, and the device for a peer that is gone.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "core/units.h"

namespace trireme::runtime::cuda {

class Watchdog {
 public:
  // After `limit` without a beat while armed, prints `trireme: ` and what `describe` says to stderr
  // and exits with 3.
  Watchdog(Seconds limit, std::function<std::string()> describe);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  Watchdog(Watchdog&&) = delete;
  Watchdog& operator=(Watchdog&&) = delete;

  void arm() {
    beat();
    armed_ = true;
  }
  void disarm() { armed_ = false; }
  void beat() { last_beat_ = std::chrono::steady_clock::now().time_since_epoch().count(); }

 private:
  void watch();

  std::chrono::steady_clock::duration limit_;
  std::function<std::string()> describe_;
  std::atomic<bool> armed_ = false;
  std::atomic<std::chrono::steady_clock::rep> last_beat_ = 0;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace trireme::runtime::cuda
